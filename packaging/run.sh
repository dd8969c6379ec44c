#!/bin/sh
# Run one node in the foreground, alone (transport solo), with its data under .run/.  NAME and PORT may be given.
set -eu
cd "$(dirname "$0")/.."

name=${NAME:-demo}
port=${PORT:-27586}
data=.run/$name

packaging/venv.sh run

# A directory that holds data has a network already: --init is for new ones only.
set -- --transport solo --bind "127.0.0.1:$port" --data-dir "$data"
if [ -z "$(ls -A "$data" 2>/dev/null)" ]; then
    set -- "$@" --init "$name"
fi

client=".venv/bin/distkv client"
[ "$port" = 27586 ] || client="$client -p $port"
cat <<END

Try these in another terminal, in this directory:

    $client set sensors.kitchen.temp 21
    $client get sensors.kitchen.temp
    $client set sensors.kitchen.temp 22 --if-value 21
    $client watch sensors      (Ctrl-C ends it)
    $client state

The node keeps its data in $data. Ctrl-C ends it; \`make run\` goes on with the same data.

END
exec .venv/bin/distkv server "$name" "$@"
