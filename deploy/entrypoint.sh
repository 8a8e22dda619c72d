#!/bin/sh
# Starts streamjobs with the loops that were compiled when the image was built. Numba unpickles what it finds, so streamjobs
# uses no folder of another user: each user gets a copy.
set -eu
built=/opt/streamjobs/cache/loops
cache="${STREAMJOBS_CACHE:-${TMPDIR:-/tmp}/streamjobs-$(id -u)}"
if [ -d "$built" ] && [ ! -e "$cache/loops" ]; then
    umask 077
    copy="$cache/loops.$$"
    if mkdir -p "$cache" && cp -R "$built" "$copy"; then
        mv "$copy" "$cache/loops"
    else
        echo "streamjobs: the compiled loops could not be copied to $cache; they are compiled again." >&2
        rm -rf "$copy"
    fi
fi
export STREAMJOBS_CACHE="$cache"
exec streamjobs "$@"
