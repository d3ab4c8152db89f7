#!/bin/sh
# SPDX-License-Identifier: MIT
printf 'strict_chain\n[ProxyList]\nsocks5 127.0.0.1 9\n' >conf
proxychains4 -q -f conf sh -c 'echo through; exit 3' || echo "$?"
proxychains4 -q -f conf /usr/bin/python3 -c 'import socket
try: socket.create_connection(("192.0.2.1", 80), 5)
except OSError as error: print("refused", type(error).__name__)'
