# Installs llm-router from a release on Windows (x64).  Written and checked by reading; never run by us, for
# want of PowerShell (docs/releasing.md).
#
#   powershell -ExecutionPolicy Bypass -File install.ps1 [-Version V] [-Prefix FOLDER] [-Service] [-Downgrade]
#              [-BaseUrl URL] [-Uninstall [-Purge]]
#
# The archive's checksum must stand in SHA256SUMS, and SHA256SUMS must have the signature (Ed25519) of the
# key below.  .NET Framework has no Ed25519, so the check is computed with its whole numbers.
param(
    [string]$Version, [string]$Prefix, [string]$BaseUrl = '@BASE_URL@',
    [switch]$Service, [switch]$Downgrade, [switch]$Uninstall, [switch]$Purge
)

$PublicKey = '@PUBLIC_KEY@'

function Fail([string]$text) { throw "install.ps1: $text" }

# ---- the signature (RFC 8032) ----

function Get-Bytes([string]$hex) {
    if ($hex.Length % 2 -or $hex -notmatch '^[0-9a-f]*$') { Fail "$hex is no hexadecimal number" }
    $bytes = New-Object byte[] ($hex.Length / 2)
    for ($i = 0; $i -lt $bytes.Length; $i++) { $bytes[$i] = [Convert]::ToByte($hex.Substring(2 * $i, 2), 16) }
    , $bytes
}

# Little-endian bytes; the zero behind them keeps the number positive.
function Get-Number([byte[]]$bytes) { New-Object System.Numerics.BigInteger (, [byte[]]($bytes + [byte]0)) }

function Test-Signature([string]$signature, [byte[]]$message, [string]$key) {
    if ($signature -notmatch '^[0-9a-f]{128}$' -or $key -notmatch '^[0-9a-f]{64}$') { return $false }
    $big = [System.Numerics.BigInteger]
    $p = $big::Pow(2, 255) - 19
    $order = $big::Pow(2, 252) + $big::Parse('27742317777372353535851937790883648493')
    $inverse = { param($x) $big::ModPow($x, $p - 2, $p) }
    $mod = { param($x) $x = $x % $p; if ($x -lt 0) { $x += $p }; $x }
    $d = & $mod (-121665 * (& $inverse ($big::Parse('121666'))))
    $root = $big::ModPow(2, ($p - 1) / 4, $p)
    $encoded = Get-Bytes $key
    $raw = Get-Bytes $signature
    [byte[]]$r = $raw[0..31]
    $s = Get-Number ([byte[]]$raw[32..63])
    if ($s -ge $order) { return $false }
    $hash = [System.Security.Cryptography.SHA512]::Create().ComputeHash([byte[]]($r + $encoded + $message))
    $k = (Get-Number $hash) % $order

    # x from y, as the key has it.
    $sign = [int]($encoded[31] -shr 7)
    $encoded[31] = $encoded[31] -band 127
    $y = Get-Number $encoded
    $u = & $mod ($y * $y - 1)
    $square = & $mod ($u * (& $inverse ($d * $y * $y + 1)))
    $x = $big::ModPow($square, ($p + 3) / 8, $p)
    if ((& $mod ($x * $x - $square)) -ne 0) { $x = & $mod ($x * $root) }
    if ((& $mod ($x * $x - $square)) -ne 0) { return $false }
    if ([int]($x % 2) -ne $sign) { $x = $p - $x }
    $x = & $mod (-$x) # the key, negated: S times the base point plus K times this must be R

    # Points are X, Y, Z, T; the formula holds for every pair of points.
    $add = {
        param($m, $n)
        $a = & $mod (($m[1] - $m[0]) * ($n[1] - $n[0]))
        $b = & $mod (($m[1] + $m[0]) * ($n[1] + $n[0]))
        $c = & $mod (2 * $d * $m[3] * $n[3])
        $e = & $mod (2 * $m[2] * $n[2])
        , @((& $mod (($b - $a) * ($e - $c))), (& $mod (($e + $c) * ($b + $a))), (& $mod (($e - $c) * ($e + $c))), (& $mod (($b - $a) * ($b + $a))))
    }
    $baseX = $big::Parse('15112221349535400772501151409588531511454012693041857206046113283949847762202')
    $baseY = $big::Parse('46316835694926478169428394003475163141307993866256225615783033603165251855960')
    $base = @($baseX, $baseY, $big::One, (& $mod ($baseX * $baseY)))
    $negated = @($x, $y, $big::One, (& $mod ($x * $y)))
    $sum = @($big::Zero, $big::One, $big::One, $big::Zero)
    for ($i = 255; $i -ge 0; $i--) {
        $sum = & $add $sum $sum
        $bit = $big::Pow(2, $i)
        if (($s / $bit) % 2 -eq 1) { $sum = & $add $sum $base }
        if (($k / $bit) % 2 -eq 1) { $sum = & $add $sum $negated }
    }
    $z = & $inverse $sum[2]
    $got = (& $mod ($sum[1] * $z)) + ((& $mod ($sum[0] * $z)) % 2) * $big::Pow(2, 255)
    $got -eq (Get-Number $r)
}

# ---- downloads ----

function Get-Release([string]$path, [string]$file) {
    try { Invoke-WebRequest -UseBasicParsing -Uri "$BaseUrl/$path" -OutFile $file }
    catch { Fail "could not download $BaseUrl/${path}: $_" }
}

function Get-Order([string]$version) { [version](($version -replace '[-+].*$', '') + $(if ($version -match '-') { '.0' } else { '.1' })) }

# ---- the life of an installation ----

function Remove-Release {
    $known = Get-Service -Name llm-router -ErrorAction SilentlyContinue
    if ($known) {
        Stop-Service llm-router
        & sc.exe delete llm-router | Out-Null
    }
    $path = [Environment]::GetEnvironmentVariable('Path', 'User')
    [Environment]::SetEnvironmentVariable('Path', (($path -split ';' | Where-Object { $_ -ne "$Prefix\current\bin" }) -join ';'), 'User')
    if (Test-Path "$Prefix\current") { [IO.Directory]::Delete("$Prefix\current") } # a junction: not what it points at
    if (Test-Path $Prefix) { Remove-Item -Recurse -Force $Prefix }
    $data = Join-Path $env:LOCALAPPDATA 'llm-router'
    if ($Purge) { Remove-Item -Recurse -Force $data -ErrorAction SilentlyContinue }
    elseif (Test-Path $data) { Write-Output "Its data stays in $data (-Purge removes it)" }
    Write-Output "Removed $Prefix"
}

function Install-Release {
    if (-not [Environment]::Is64BitOperatingSystem -or $env:PROCESSOR_ARCHITECTURE -eq 'ARM64') { Fail 'releases for Windows are for x64 only' }
    $isLocal = $BaseUrl -match '^http://(127\.0\.0\.1|localhost|\[::1\])(:|/|$)'
    if ($BaseUrl -notmatch '^https://' -and -not $isLocal) { Fail "${BaseUrl}: releases are downloaded by https only" }
    if ($BaseUrl -match '\.invalid(/|$)') { Fail 'this copy of install.ps1 knows no address of releases; name it with -BaseUrl' }
    $work = Join-Path ([IO.Path]::GetTempPath()) ([IO.Path]::GetRandomFileName())
    New-Item -ItemType Directory $work | Out-Null
    try {
        if (-not $Version) {
            Get-Release 'latest' "$work\latest"
            $Version = (Get-Content "$work\latest" -TotalCount 1).Trim()
        }
        if ($Version -notmatch '^[0-9][0-9A-Za-z.+-]*$') { Fail "$Version is no version" }
        $current = Get-Item "$Prefix\current" -ErrorAction SilentlyContinue
        $before = if ($current) { Split-Path -Leaf @($current.Target)[0] } else { '' }
        if ($before -and (Get-Order $Version) -lt (Get-Order $before) -and -not $Downgrade) {
            Fail "version $Version is older than the installed version $before; -Downgrade allows it"
        }
        $archive = "llm-router-$Version-windows-x64.zip"
        Write-Output "llm-router $Version will be installed into $Prefix\$Version from $BaseUrl/$Version/$archive"
        Get-Release "$Version/SHA256SUMS" "$work\SHA256SUMS"
        Get-Release "$Version/SHA256SUMS.sig" "$work\SHA256SUMS.sig"
        $signature = (Get-Content -Raw "$work\SHA256SUMS.sig").Trim()
        if (-not (Test-Signature $signature ([IO.File]::ReadAllBytes("$work\SHA256SUMS")) $PublicKey)) {
            Fail "$BaseUrl/$Version/SHA256SUMS has no signature of the key $PublicKey; nothing was installed"
        }
        $line = Get-Content "$work\SHA256SUMS" | Where-Object { ($_ -split ' +\*?', 2)[1] -eq $archive }
        if (-not $line) { Fail "release $Version has no archive for windows-x64" }
        Get-Release "$Version/$archive" "$work\$archive"
        $sum = (Get-FileHash -Algorithm SHA256 "$work\$archive").Hash.ToLower()
        if ($sum -ne ($line -split ' ')[0]) { Fail "$archive has the checksum $sum, and SHA256SUMS says $(($line -split ' ')[0]); nothing was installed" }
        Expand-Archive "$work\$archive" "$work\files"
        $files = "$work\files\llm-router-$Version-windows-x64"
        & "$files\bin\llm-router.exe" version | Out-Null
        if ($LASTEXITCODE) { Fail 'the new program does not run on this system' }
        $known = Get-Service -Name llm-router -ErrorAction SilentlyContinue
        if ($known) { Stop-Service llm-router } # its requests end first
        if (Test-Path "$Prefix\$Version") { Remove-Item -Recurse -Force "$Prefix\$Version" }
        New-Item -ItemType Directory -Force $Prefix | Out-Null
        Move-Item $files "$Prefix\$Version"
        if ($current) { [IO.Directory]::Delete("$Prefix\current") }
        New-Item -ItemType Junction -Path "$Prefix\current" -Target "$Prefix\$Version" | Out-Null
    } finally { Remove-Item -Recurse -Force $work }
    $path = [Environment]::GetEnvironmentVariable('Path', 'User')
    if (($path -split ';') -notcontains "$Prefix\current\bin") { [Environment]::SetEnvironmentVariable('Path', "$path;$Prefix\current\bin", 'User') }
    if ($known) { Start-Service llm-router }
    elseif ($Service) {
        New-Service -Name llm-router -DisplayName 'llm-router' -StartupType Automatic -BinaryPathName "`"$Prefix\current\bin\llm-router.exe`" up --data-dir `"$env:ProgramData\llm-router`"" | Out-Null
        Start-Service llm-router
    }
    Write-Output "llm-router $Version is installed. In a new window: llm-router up"
}

# The last line: a file that was cut off in the middle does nothing.
& {
    $ErrorActionPreference = 'Stop'
    $ProgressPreference = 'SilentlyContinue'
    if (-not $Prefix) { $script:Prefix = Join-Path $env:LOCALAPPDATA 'Programs\llm-router' }
    if ($Uninstall) { Remove-Release } else { Install-Release }
}
