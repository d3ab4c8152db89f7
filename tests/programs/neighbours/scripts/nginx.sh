#!/bin/sh
# SPDX-License-Identifier: MIT
mkdir w t
seq 2000 >w/page
chmod 755 . w
cat >c <<END
pid $PWD/pid;
error_log $PWD/log;
worker_processes 2;
daemon off;
user $(id -un);
events { worker_connections 64; }
http {
	access_log off;
	sendfile on;
	aio threads;
	client_body_temp_path $PWD/t;
	proxy_temp_path $PWD/t;
	fastcgi_temp_path $PWD/t;
	uwsgi_temp_path $PWD/t;
	scgi_temp_path $PWD/t;
	server { listen unix:$PWD/s; root $PWD/w; }
}
END
nginx -t -q -e "$PWD/log" -c "$PWD/c"
nginx -e "$PWD/log" -c "$PWD/c" &
p=$!
until [ -S s ] && [ -s pid ]; do kill -0 $p; done
/usr/bin/python3 "$SCRIPTS/nginx.py"
kill -QUIT $p
wait $p || echo "status $?"
rm -rf w t c log s pid
