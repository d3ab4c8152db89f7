#!/bin/sh
# SPDX-License-Identifier: MIT
cat <<END | dash
trap 'echo end' EXIT
x=\$(seq 1000 | sort -rn | head -3); echo "\$x"
for i in 1 2 3; do (sleep 0; exit \$i) & p=\$!; wait \$p || echo "status \$?"; done
trap; kill -TERM \$\$
END
