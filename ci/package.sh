#!/usr/bin/env bash
# The public crates can be published: each package contains its README and its licences, is small,
# contains no tests, and compiles from its own files. Without the registry, only the lists of files
# are checked.
. "$(dirname "$0")/lib.sh"

limit=1800 # KiB of files in one package, before they are packed
for crate in $PUBLIC; do
    # The files of the package, as cargo lists them; the two that cargo generates do not exist here.
    list=$(cargo package --offline --locked --allow-dirty --list -p "$crate" | grep -vxF -e Cargo.toml.orig -e .cargo_vcs_info.json)
    for file in README.md LICENSE-MIT LICENSE-APACHE Cargo.toml src/lib.rs; do
        grep -qxF "$file" <<<"$list" || fail "$crate: the package has no $file"
    done
    ! grep -E '^tests/|\.csv$' <<<"$list" || fail "$crate: the package has what only the repository needs"
    size=$(cd "$(home "$crate")" && grep -vxF Cargo.lock <<<"$list" | tr '\n' '\0' | du -Lck --apparent-size --files0-from=- | tail -n 1 | cut -f1)
    [ "$size" -le $limit ] || fail "$crate: the package has $size KiB, more than the limit of $limit"
    say "$crate: $(wc -l <<<"$list") files, $size KiB"
done

# All other crates must not be published.
for manifest in */*/Cargo.toml; do
    crate=$(name "$(dirname "$manifest")")
    case " $PUBLIC " in
    *" $crate "*) ! grep -q '^publish = false' "$manifest" || fail "$manifest: \"publish = false\" forbids the publication" ;;
    *) grep -q '^publish = false' "$manifest" || fail "$manifest: lacks \"publish = false\"" ;;
    esac
done

if run timeout 120 cargo info --registry crates-io thiserror >/dev/null 2>&1; then
    # Remove what an earlier run unpacked and compiled: it has the same versions, and cargo would
    # use it for this run.
    home=${CARGO_HOME:-$HOME/.cargo}/registry
    rm -rf "$home"/src/-*/sapwood-* "$home"/cache/-*/sapwood-* "$TARGET/publish"
    CARGO_TARGET_DIR="$TARGET/publish" CARGO_PROFILE_DEV_DEBUG=0 run cargo publish --workspace --dry-run --locked --allow-dirty
else
    say "The registry cannot be reached here: the dry run of the publication is skipped."
fi
