#!/bin/sh
# Make a host ready to be a node: host.sh NAME ADDRESS SEEDS, as root, in a directory with wheels/ and the unit's files.
# SEEDS are the addresses of a few hosts with commas between them, by which agents find each other. May be run again.
# It starts the Serf agent; the node is started when its turn has come. DESTDIR is put before every path.
set -eu

name=$1 address=$2 seeds=$3
root=${DESTDIR:-}

apt-get install --yes --quiet python3-venv serf
python3 -m venv "$root/opt/distkv"
"$root/opt/distkv/bin/pip" install --quiet --no-index --find-links wheels --upgrade distkv
mkdir -p "$root/usr/bin" "$root/etc/distkv" "$root/etc/serf" "$root/etc/systemd/system"
ln -sf /opt/distkv/bin/distkv "$root/usr/bin/distkv"

cat >"$root/etc/serf/distkv.json" <<END
{
    "node_name": "$name",
    "bind": "$address:7946",
    "retry_join": ["$(echo "$seeds" | sed 's/,/", "/g')"]
}
END
cat >"$root/etc/distkv/config.yaml" <<END
node:
  name: $name
listen: ["127.0.0.1:27586", "$address:27586"]
advertise: $address:27586
END

cp distkv@.service "$root/etc/systemd/system/"
systemd-sysusers distkv.sysusers
systemctl daemon-reload
systemctl enable serf
systemctl restart serf
