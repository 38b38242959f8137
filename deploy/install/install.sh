#!/bin/sh
# Installs llm-router from a release: Linux (x64, arm64) and macOS (arm64).
#
#   sh install.sh [--version V] [--prefix FOLDER] [--service] [--downgrade] [--base-url URL] [--yes]
#   sh install.sh --check [--prefix FOLDER]
#   sh install.sh --uninstall [--purge] [--prefix FOLDER]
#
# Run again it updates: routers that run hand over to the new version, services are restarted, and what does
# not start brings the version before back.  `llm-router update` runs the copy of this script that the
# installed release brought.
#
# The archive's checksum must stand in SHA256SUMS, and SHA256SUMS must have the signature (Ed25519) of the
# key below.  The check needs no OpenSSL: it is computed by awk, which every system has.
#
# All of this file is functions, and its last line calls the first one.  A file that was cut off in the
# middle therefore does nothing.
set -eu

base_url='@BASE_URL@'
public_key='@PUBLIC_KEY@'
oldest_glibc=2.31

main() {
    version='' prefix='' service='' downgrade='' uninstall='' purge='' yes='' check=''
    read_arguments "$@"
    umask 022
    if [ -z "$prefix" ]; then
        if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=$HOME/.local; fi
    fi
    case $prefix in
    /*) ;;
    *) fail "--prefix $prefix is no absolute path" ;;
    esac
    releases=$prefix/lib/llm-router-releases
    program=$prefix/bin/llm-router
    if [ -n "$uninstall" ]; then
        remove
        return
    fi
    find_platform
    find_tools
    check_url
    work=$(mktemp -d "${TMPDIR:-/tmp}/llm-router.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' INT TERM HUP
    find_version
    if [ -n "$check" ]; then
        say_newest
        return
    fi
    check_place
    say_plan
    fetch_sums
    fetch_archive
    put_in_place
    if [ -n "$service" ]; then install_service; fi
    if [ -n "$before" ] && [ "$before" != "$version" ]; then renew_running; fi
    say_end
}

usage() {
    cat << 'END'
Installs llm-router: sh install.sh [OPTION...]
  --version V      this version; default: the newest
  --prefix FOLDER  default: /usr/local for root, ~/.local for others
  --service        also a service: systemd on Linux, launchd on macOS
  --downgrade      allow a version that is older than the installed version
  --base-url URL   where the releases are; https, or http on this machine
  --yes            do not ask
  --check          only say whether there is a newer version
  --uninstall      remove the program; --purge also removes its data
END
}

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

read_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
        --version | --prefix | --base-url)
            [ $# -ge 2 ] || fail "$1 needs a value"
            case $1 in
            --version) version=${2#v} ;;
            --prefix) prefix=${2%/} ;;
            --base-url) base_url=${2%/} ;;
            esac
            shift
            ;;
        --service) service=1 ;;
        --downgrade) downgrade=1 ;;
        --check) check=1 ;;
        --uninstall) uninstall=1 ;;
        --purge) purge=1 ;;
        --yes | -y) yes=1 ;;
        --help | -h)
            usage
            exit 0
            ;;
        *) fail "unknown option $1; --help lists the options" ;;
        esac
        shift
    done
    [ -z "$purge" ] || [ -n "$uninstall" ] || fail "--purge goes with --uninstall"
}

# ---- what this machine is ----

find_platform() {
    system=$(uname -s)
    machine=$(uname -m)
    case $system/$machine in
    Linux/x86_64 | Linux/amd64) target=linux-x64 loader=/lib64/ld-linux-x86-64.so.2 ;;
    Linux/aarch64 | Linux/arm64) target=linux-arm64 loader=/lib/ld-linux-aarch64.so.1 ;;
    Darwin/arm64) target=macos-arm64 loader='' ;;
    Darwin/x86_64) fail "Macs with an Intel processor are not supported; releases are for Apple processors" ;;
    *) fail "$system on $machine is not supported; releases are for Linux (x64, arm64), macOS (arm64) and Windows (install.ps1)" ;;
    esac
    [ "$system" = Linux ] || return 0
    release=$(uname -r)
    case $release in
    *WSL2* | *microsoft-standard*) ;;
    *Microsoft*) fail "this is WSL 1, whose kernel lacks what workers need; run: wsl --set-version DISTRIBUTION 2" ;;
    esac
    if [ -e /etc/alpine-release ]; then
        fail "Alpine Linux has musl as its C library, and llm-router needs glibc $oldest_glibc or later; use a distribution with glibc (Debian 11, Ubuntu 20.04, Fedora 33 or later), or a container of one"
    fi
    [ -e "$loader" ] || fail "glibc is missing ($loader); llm-router needs glibc $oldest_glibc or later"
    glibc=$( (getconf GNU_LIBC_VERSION 2> /dev/null || true) | sed -n 's/^glibc //p')
    if [ -n "$glibc" ] && is_older "$glibc" "$oldest_glibc"; then
        fail "this system has glibc $glibc, and llm-router needs $oldest_glibc or later"
    fi
}

has() { command -v "$1" > /dev/null 2>&1; }

find_tools() {
    if has curl; then
        fetcher=curl
    elif has wget; then
        fetcher=wget
    else
        fail "needs curl or wget to download; install one of them"
    fi
    if has sha256sum && has sha512sum; then
        summer=coreutils
    elif has shasum; then
        summer=shasum
    elif has openssl; then
        summer=openssl
    else
        fail "needs sha256sum, shasum or openssl to check what was downloaded; install one of them"
    fi
    for tool in awk tar gzip mktemp sed tail tr; do has "$tool" || fail "needs $tool; install it"; done
}

sum_of() { # BITS FILE: the checksum, in hexadecimal digits
    case $summer in
    coreutils) "sha$1sum" < "$2" ;;
    shasum) shasum -a "$1" < "$2" ;;
    openssl) openssl dgst "-sha$1" -r < "$2" ;;
    esac | sed 's/[ *].*//'
}

# ---- versions ----

is_version() {
    case $1 in
    '' | *[!0-9A-Za-z.+-]* | [!0-9]* | *..*) return 1 ;;
    esac
}

is_older() { # A B: whether version A comes before B; 1.2.0-rc1 comes before 1.2.0
    awk -v a="$1" -v b="$2" 'BEGIN {
        ta = a; tb = b
        sub(/[-+].*/, "", a); sub(/[-+].*/, "", b)
        n = split(a, x, "."); m = split(b, y, ".")
        for (i = 1; i <= n || i <= m; i++)
            if (x[i] + 0 != y[i] + 0) exit !(x[i] + 0 < y[i] + 0)
        exit !(ta ~ /-/ && tb !~ /-/)
    }'
}

installed_version() { # empty: none
    if [ -L "$releases/current" ]; then basename "$(readlink "$releases/current")"; fi
}

# ---- downloads ----

# Plain http only for this machine, where nobody can change what arrives.
check_url() {
    case $base_url in
    https://*) ;;
    http://127.0.0.1[:/]* | http://127.0.0.1 | http://localhost[:/]* | http://localhost | http://\[::1\]*) ;;
    http://*) fail "$base_url: releases are downloaded by https only" ;;
    *) fail "$base_url is no address of releases; name it with --base-url" ;;
    esac
    case $base_url in
    *.invalid | *.invalid/*) fail "this copy of install.sh knows no address of releases; name it with --base-url" ;;
    esac
}

fetch() { # PATH FILE MOST-BYTES
    url=$base_url/$1
    case $url in
    https://*) protocols='=https' ;;
    *) protocols='=http,https' ;;
    esac
    case $fetcher in
    curl) why=$(curl -fsSL --proto "$protocols" --proto-redir "$protocols" --retry 2 --max-filesize "$3" --connect-timeout 20 --speed-limit 1 --speed-time 60 -o "$2" "$url" 2>&1) && return ;;
    wget) why=$(wget -nv -T 60 -t 3 -O "$2" "$url" 2>&1) && return ;;
    esac
    rm -f "$2"
    fail "could not download $url: $(printf %s "$why" | tail -n 1)"
}

find_version() {
    if [ -z "$version" ]; then
        fetch latest "$work/latest" 1000
        version=$(sed -n '1s/[[:space:]]*$//p' "$work/latest")
    fi
    is_version "$version" || fail "$version is no version"
    archive=llm-router-$version-$target.tar.gz
}

# ---- the signature ----

# verify SIGNATURE-HEX FILE: whether SIGNATURE is the key's (RFC 8032, Ed25519).  A number is an array of 15
# limbs of 17 bits, so that awk's doubles hold every sum of products exactly.
verify() {
    case $1$public_key in
    *[!0-9a-f]*) return 1 ;;
    esac
    [ ${#1} = 128 ] && [ ${#public_key} = 64 ] || return 1
    r=$(printf %s "$1" | cut -c 1-64)
    # The bytes R, A and the message; printf writes them from octal numbers.
    # shellcheck disable=SC2059 # the format is made of octal escapes
    {
        printf "$(printf %s "$r$public_key" | awk '{
            for (i = 1; i <= length($0); i += 2)
                printf "\\%03o", (index("0123456789abcdef", substr($0, i, 1)) - 1) * 16 + index("0123456789abcdef", substr($0, i + 1, 1)) - 1
        }')"
        cat "$2"
    } > "$work/signed"
    k=$(sum_of 512 "$work/signed")
    [ ${#k} = 128 ] || return 1
    awk -v A="$public_key" -v R="$r" -v S="$(printf %s "$1" | cut -c 65-128)" -v K="$k" '
    # Numbers are numbered: number n has its limbs at M[15 n] and behind.
    function carry(n,    i, c, round) {
        n *= 15
        for (round = 0; round < 3; round++) {
            for (i = c = 0; i < 15; i++) {
                M[n + i] += c
                c = int(M[n + i] / 131072)
                M[n + i] -= c * 131072
            }
            M[n] += 19 * c
        }
    }
    function mul(to, a, b,    i, j, x) {
        a *= 15; b *= 15; to *= 15
        for (i = 0; i < 29; i++) T[i] = 0
        for (i = 0; i < 15; i++) {
            x = M[a + i]
            for (j = 0; j < 15; j++) T[i + j] += x * M[b + j]
        }
        for (i = 0; i < 14; i++) M[to + i] = T[i] + 19 * T[i + 15]
        M[to + 14] = T[14]
        carry(to / 15)
    }
    function add(to, a, b,    i) {
        for (i = 0; i < 15; i++) M[15 * to + i] = M[15 * a + i] + M[15 * b + i]
        carry(to)
    }
    function sub_(to, a, b,    i) { # a + 2 p - b
        for (i = 0; i < 15; i++) M[15 * to + i] = M[15 * a + i] - M[15 * b + i] + (i ? 262142 : 262106)
        carry(to)
    }
    function copy(to, a,    i) { for (i = 0; i < 15; i++) M[15 * to + i] = M[15 * a + i] }
    function small(to, value,    i) { for (i = 0; i < 15; i++) M[15 * to + i] = 0; M[15 * to] = value }
    # n becomes the number below p that it stands for.
    function freeze(n,    i, c, round) {
        carry(n)
        for (round = 0; round < 2; round++) {
            c = 19
            for (i = 0; i < 15; i++) c = int((M[15 * n + i] + c) / 131072)
            if (!c) return # n + 19 is below 2^255, so n is below p
            M[15 * n] += 19
            for (i = c = 0; i < 15; i++) {
                M[15 * n + i] += c
                c = int(M[15 * n + i] / 131072)
                M[15 * n + i] -= c * 131072
            }
        }
    }
    function is_same(a, b,    i) {
        freeze(a); freeze(b)
        for (i = 0; i < 15; i++) if (M[15 * a + i] != M[15 * b + i]) return 0
        return 1
    }
    # to = base^e, where e is 2^count - below; below is small and count is 252 or 255.
    function power(to, base, count, below,    i, bit, rest) {
        small(to, 1)
        # 2^count - below has the bits of 2^count - 1 but where below - 1 has a one.
        rest = below - 1
        for (i = count - 1; i >= 0; i--) {
            mul(to, to, to)
            bit = i < 8 ? 1 - int(rest / POWER[i]) % 2 : 1
            if (bit) mul(to, to, base)
        }
    }
    # Bits of little-endian bytes in hexadecimal digits: B[name, i].
    function bits(name, hex,    i, j, v) {
        for (i = 0; i < length(hex); i += 2) {
            v = (index(digits, substr(hex, i + 1, 1)) - 1) * 16 + index(digits, substr(hex, i + 2, 1)) - 1
            for (j = 0; j < 8; j++) { B[name, i * 4 + j] = v % 2; v = int(v / 2) }
        }
    }
    function number(to, name,    i) { # of the lowest 255 bits
        small(to, 0)
        for (i = 254; i >= 0; i--) M[15 * to + int(i / 17)] = M[15 * to + int(i / 17)] * 2 + B[name, i]
    }
    function constant(to, hex) { bits("c", hex); number(to, "c") }
    # Points are four numbers X, Y, Z, T; these formulas hold for every pair of points.
    function point_add(to, a, b) {
        sub_(40, a + 1, a); sub_(41, b + 1, b); mul(40, 40, 41)
        add(41, a + 1, a); add(42, b + 1, b); mul(41, 41, 42)
        mul(42, a + 3, b + 3); mul(42, 42, D2)
        mul(43, a + 2, b + 2); add(43, 43, 43)
        sub_(44, 41, 40); sub_(45, 43, 42); add(46, 43, 42); add(47, 41, 40)
        mul(to, 44, 45); mul(to + 1, 46, 47); mul(to + 2, 45, 46); mul(to + 3, 44, 47)
    }
    BEGIN {
        digits = "0123456789abcdef"
        for (i = POWER[0] = 1; i < 17; i++) POWER[i] = 2 * POWER[i - 1] # of 2; some awks have no operator for it
        ONE = 30; D = 31; D2 = 32; ROOT = 33
        small(ONE, 1)
        constant(D, "a3785913ca4deb75abd841414d0a700098e879777940c78c73fe6f2bee6c0352")
        add(D2, D, D)
        constant(ROOT, "b0a00e4a271beec478e42fad0618432fa7d7fb3d99004d2b0bdfc14f8024832b")
        # The base point at 4.
        constant(4, "1ad5258f602d56c9b2a7259560c72c695cdcd6fd31e2a4c0fe536ecdd3366921")
        constant(5, "5866666666666666666666666666666666666666666666666666666666666666")
        small(6, 1); mul(7, 4, 5)
        # S must be below the order of the group.
        order = "1000000000000000000000000000000014def9dea2f79cd65812631a5cf5d3ed"
        big = ""
        for (i = 63; i > 0; i -= 2) big = big substr(S, i, 2)
        if (("x" big) >= ("x" order)) exit 1
        # The key at 8, negated: x from y.
        bits("a", A); number(9, "a"); small(10, 1)
        mul(20, 9, 9); mul(21, 20, D); sub_(20, 20, ONE); add(21, 21, ONE) # u, v
        mul(22, 21, 21); mul(22, 22, 21)                                   # v^3
        mul(23, 22, 22); mul(23, 23, 21); mul(23, 23, 20)                  # u v^7
        power(24, 23, 252, 3)
        mul(24, 24, 20); mul(24, 24, 22)
        mul(25, 24, 24); mul(25, 25, 21)
        if (!is_same(25, 20)) {
            small(26, 0); sub_(26, 26, 20)
            if (!is_same(25, 26)) exit 1
            mul(24, 24, ROOT)
        }
        freeze(24)
        if (M[15 * 24] % 2 == B["a", 255]) { small(26, 0); sub_(24, 26, 24) }
        copy(8, 24); mul(11, 8, 9)
        # The sum of both at 12; S times the base point and K times the negated key at 0.
        point_add(12, 4, 8)
        bits("s", S); bits("k", K)
        small(0, 0); small(1, 1); small(2, 1); small(3, 0)
        for (i = 511; i >= 0; i--) {
            point_add(0, 0, 0)
            s = i < 256 ? B["s", i] : 0
            if (s && B["k", i]) point_add(0, 0, 12)
            else if (s) point_add(0, 0, 4)
            else if (B["k", i]) point_add(0, 0, 8)
        }
        # It must be R.
        power(20, 2, 255, 21)
        mul(21, 0, 20); mul(22, 1, 20)
        freeze(21); freeze(22)
        bits("r", R)
        for (i = 0; i < 255; i++) if (int(M[15 * 22 + int(i / 17)] / POWER[i % 17]) % 2 != B["r", i]) exit 1
        exit M[15 * 21] % 2 != B["r", 255]
    }'
}
fetch_sums() {
    fetch "$version/SHA256SUMS" "$work/SHA256SUMS" 1000000
    fetch "$version/SHA256SUMS.sig" "$work/SHA256SUMS.sig" 1000
    verify "$(tr -d ' \r\n' < "$work/SHA256SUMS.sig")" "$work/SHA256SUMS" ||
        fail "$base_url/$version/SHA256SUMS has no signature of the key $public_key; nothing was installed"
}

fetch_archive() {
    wanted=$(awk -v name="$archive" '$2 == name || $2 == "*" name {print $1}' "$work/SHA256SUMS")
    [ ${#wanted} = 64 ] || fail "release $version has no archive for $target (SHA256SUMS does not name $archive)"
    echo "Downloading $archive"
    fetch "$version/$archive" "$work/$archive" 4000000000
    got=$(sum_of 256 "$work/$archive")
    [ "$got" = "$wanted" ] || fail "$archive has the checksum $got, and SHA256SUMS says $wanted; nothing was installed"
}

# ---- the files ----

# The program is a link, and each version has a folder: an update changes one link.
#   PREFIX/bin/llm-router -> PREFIX/lib/llm-router-releases/current/bin/llm-router
#   PREFIX/lib/llm-router-releases/current -> VERSION
check_place() {
    if [ -e "$program" ] || [ -L "$program" ]; then
        case $(readlink "$program" 2> /dev/null || true) in
        "$releases"/*) ;;
        *) fail "$program was installed by something else (a package, make install); remove it, or choose another folder with --prefix" ;;
        esac
    fi
    before=$(installed_version)
    if [ -n "$before" ] && is_older "$version" "$before" && [ -z "$downgrade" ]; then
        fail "version $version is older than the installed version $before; --downgrade allows it"
    fi
    above=$prefix
    while [ ! -d "$above" ]; do above=$(dirname "$above"); done
    [ -w "$above" ] || fail "$above cannot be written by $(id -un); run this as root, or choose a folder with --prefix"
    if [ -n "$service" ]; then check_service; fi
}

say_newest() {
    before=$(installed_version)
    if [ -z "$before" ]; then
        echo "llm-router $version is the newest version; none is installed in $prefix"
    elif is_older "$before" "$version"; then
        echo "llm-router $version can be installed; $before is installed. Update it: $program update"
    else
        echo "llm-router $before is installed; there is no newer version"
    fi
}

say_plan() {
    if [ "$before" = "$version" ]; then
        echo "llm-router $version is installed; its files will be replaced:"
    elif [ -n "$before" ]; then
        echo "llm-router $before will be replaced by $version:"
    else
        echo "llm-router $version will be installed:"
    fi
    echo "  from     $base_url/$version/$archive"
    echo "  program  $program"
    echo "  files    $releases/$version"
    if [ -n "$service" ]; then echo "  service  $unit"; fi
    # A pipe (curl ... | sh) has no answer on its standard input: then the plan is printed and carried out.
    if [ -z "$yes" ] && [ -t 0 ] && [ -t 1 ]; then
        printf 'Go on? [Y/n] '
        read -r answer
        case $answer in '' | [Yy]*) ;; *) fail "nothing was changed" ;; esac
    fi
}

put_in_place() {
    mkdir -p "$prefix/bin" "$releases"
    new=$releases/.new.$$
    trap 'rm -rf "$work" "$new"' EXIT
    mkdir "$new"
    tar -xzf "$work/$archive" -C "$new" --strip-components=1 ||
        fail "could not unpack $archive into $releases; is the disk full?"
    "$new/bin/llm-router" version > "$work/says" 2>&1 ||
        fail "the new program does not run on this system: $(head -n 3 "$work/says")"
    rm -rf "${releases:?}/$version"
    mv "$new" "$releases/$version"
    point current "$version"
    ln -sf "$releases/current/bin/llm-router" "$program"
    # The version before stays, for a way back; older ones go.
    for folder in "$releases"/*; do
        case $(basename "$folder") in
        "$version" | "$before" | current) ;;
        *) rm -rf "$folder" ;;
        esac
    done
}

point() { # LINK VALUE: in one step, so that the program is there at every moment
    ln -sfn "$2" "$releases/.$1.$$"
    mv -f -T "$releases/.$1.$$" "$releases/$1" 2> /dev/null || mv -fh "$releases/.$1.$$" "$releases/$1" 2> /dev/null || {
        rm -f "$releases/$1"
        mv -f "$releases/.$1.$$" "$releases/$1"
    }
}

# ---- what runs ----

# The processes of one version that run this command (router, up, node): their numbers.  Linux only.
processes() { # VERSION COMMAND
    for exe in /proc/[0-9]*/exe; do
        case $(readlink "$exe" 2> /dev/null || true) in
        "$releases/$1/bin/llm-router"*) ;;
        *) continue ;;
        esac
        pid=${exe#/proc/}
        pid=${pid%/exe}
        if [ "$(tr '\0' '\n' < "/proc/$pid/cmdline" | sed -n 2p)" = "$2" ]; then echo "$pid"; fi
    done
}

is_running() { kill -0 "$1" 2> /dev/null; }

# Brings the version before back, and says why.
take_back() {
    point current "$before"
    rm -rf "${releases:?}/$version"
    fail "$*; version $before is in place again"
}

# A router gives its sockets and what it knows to the new version, and no request fails (docs/upgrade.md).
# up and nodes are restarted by their service, behind its socket.
renew_running() {
    [ "$system" = Linux ] || return 0
    for pid in $(processes "$before" router); do renew_router "$pid"; done
    # shellcheck disable=SC2046 # numbers
    set -- $(processes "$before" up) $(processes "$before" node)
    [ $# -gt 0 ] || return 0
    if [ "$(id -u)" = 0 ] && [ -e /etc/systemd/system/llm-router.service ] && systemctl is-active -q llm-router.service; then
        manager='systemctl'
    elif [ "$(id -u)" != 0 ] && has systemctl && systemctl --user is-active -q llm-router.service; then
        manager='systemctl --user'
    else
        echo "These processes run version $before until they are started again: $*"
        return 0
    fi
    begun=$(date +%s)
    if ! $manager restart llm-router.service; then
        point current "$before"
        $manager restart llm-router.service || true
        take_back "version $version did not start ($manager status llm-router)"
    fi
    echo "The service was restarted; requests waited at most $(($(date +%s) - begun)) s"
}

renew_router() { # PID
    kill -USR2 "$1" || fail "process $1 belongs to another user; run this as that user or as root"
    waited=0 next=''
    # A takeover that does not succeed ends the new process; a new process that lives has succeeded.
    while is_running "$1" && [ $waited -lt 60 ]; do
        sleep 1
        waited=$((waited + 1))
        if [ -z "$next" ]; then
            next=$(processes "$version" router | tail -n 1)
            [ -n "$next" ] || [ $waited -lt 10 ] || take_back "the router (process $1) did not start version $version; its log says why"
        elif ! is_running "$next"; then
            take_back "version $version ended before it took over from the router (process $1); its log says why"
        fi
    done
    next=$(processes "$version" router | tail -n 1)
    [ -n "$next" ] || take_back "version $version ended after it took over from the router (process $1)"
    echo "The router of process $1 handed over to process $next"
}

say_end() {
    echo
    echo "llm-router $version is installed."
    case :$PATH: in
    *:"$prefix/bin":*) start=llm-router ;;
    *)
        start=$program
        echo "Its folder is not in PATH. Add this line to your shell's profile:  export PATH=\"$prefix/bin:\$PATH\""
        ;;
    esac
    if [ -n "$service" ]; then
        echo "The service runs at http://127.0.0.1:11680 ($status_command)"
    else
        echo "Start it:       $start up"
        echo "Without a GPU:  $start up --device cpu"
    fi
    echo "Update it:      $start update"
}

# ---- the service ----

# Sets kind (system, user, launchd), unit and status_command.
check_service() {
    if [ "$system" = Darwin ]; then
        kind=launchd unit=$HOME/Library/LaunchAgents/llm-router.plist status_command='launchctl list llm-router'
        return
    fi
    has systemctl || fail "--service needs systemd, and this system has no systemctl"
    if [ "$(id -u)" = 0 ]; then
        kind=system unit=/etc/systemd/system/llm-router.service status_command='systemctl status llm-router'
    else
        kind=user unit=${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user/llm-router.service status_command='systemctl --user status llm-router'
    fi
}

# As the package has it (docs/systemd.md), with this program's path.
install_service() {
    units=$releases/current/share/llm-router/systemd
    mkdir -p "$(dirname "$unit")"
    case $kind in
    launchd)
        cat > "$unit" << END
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>
<key>Label</key><string>llm-router</string>
<key>ProgramArguments</key><array><string>$program</string><string>up</string></array>
<key>RunAtLoad</key><true/>
<key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
<key>ExitTimeOut</key><integer>360</integer>
<key>StandardErrorPath</key><string>$HOME/Library/Logs/llm-router.log</string>
</dict></plist>
END
        launchctl unload "$unit" 2> /dev/null || true
        launchctl load -w "$unit"
        ;;
    system)
        id llm-router > /dev/null 2>&1 || useradd --system --home-dir /var/lib/llm-router --shell /usr/sbin/nologin llm-router
        sed -e "s|/usr/bin/llm-router|$program|" -e '/^# As root: the node/d' -e '/^ExecStartPre=/d' \
            "$units/llm-router.service" > "$unit"
        cp "$units/llm-router.socket" /etc/systemd/system/llm-router.socket
        if [ ! -e /etc/llm-router/llm-router.conf ]; then
            mkdir -p /etc/llm-router
            cp "$units/llm-router.conf" /etc/llm-router/llm-router.conf
        fi
        systemctl daemon-reload
        systemctl enable llm-router.socket llm-router.service
        systemctl restart llm-router.service
        ;;
    user)
        cat > "$unit" << END
[Unit]
Description=llm-router: router and node of this machine

[Service]
Type=notify
NotifyAccess=all
ExecStart=$program up
ExecReload=/bin/kill -HUP \$MAINPID
WatchdogSec=30s
Restart=on-failure
RestartSec=1s
RestartPreventExitStatus=2
TimeoutStopSec=6min
KillMode=mixed

[Install]
WantedBy=default.target
END
        systemctl --user daemon-reload
        systemctl --user enable llm-router.service
        systemctl --user restart llm-router.service
        ;;
    esac
}

# ---- removal ----

remove() {
    system=$(uname -s) service_data=
    [ -L "$program" ] || [ -d "$releases" ] || fail "no llm-router of this script is in $prefix"
    case $(readlink "$program" 2> /dev/null || true) in
    "$releases"/* | '') ;;
    *) fail "$program was installed by something else; nothing was removed" ;;
    esac
    if [ "$system" = Darwin ] || has systemctl; then
        check_service
        if [ -e "$unit" ] && grep -q "$program" "$unit"; then
            case $kind in
            launchd) launchctl unload -w "$unit" || true ;;
            system)
                systemctl disable --now llm-router.service llm-router.socket || true
                rm -f /etc/systemd/system/llm-router.socket
                service_data='/var/lib/llm-router /etc/llm-router'
                ;;
            user) systemctl --user disable --now llm-router.service || true ;;
            esac
            rm -f "$unit"
            echo "Removed $unit"
        fi
    fi
    rm -f "$program"
    rm -rf "$releases"
    echo "Removed $program and $releases"
    for data in "$HOME/.llm-router" $service_data; do
        [ -d "$data" ] || continue
        if [ -n "$purge" ]; then
            rm -rf "$data"
            echo "Removed $data"
        else
            echo "Its data stays in $data (--purge removes it)"
        fi
    done
}

main "$@"
