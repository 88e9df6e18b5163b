#!/usr/bin/env bash
# The public crates can be published: each package has its README and its licences, is small, leaves
# tests out, and compiles from what is in it. Without the registry, only the lists of files are
# looked at.
. "$(dirname "$0")/lib.sh"

limit=1500 # KiB of files in one package, before they are packed
for crate in $PUBLIC; do
    # What is in the package, as cargo names it; the two that cargo writes are no files here.
    list=$(cargo package --offline --locked --allow-dirty --list -p "$crate" | grep -vxF -e Cargo.toml.orig -e .cargo_vcs_info.json)
    for file in README.md LICENSE-MIT LICENSE-APACHE Cargo.toml src/lib.rs; do
        grep -qxF "$file" <<<"$list" || fail "$crate: the package has no $file"
    done
    ! grep -E '^tests/|selftests|\.csv$' <<<"$list" || fail "$crate: the package has what only the repository needs"
    size=$(cd "crates/$crate" && grep -vxF Cargo.lock <<<"$list" | tr '\n' '\0' | du -Lck --apparent-size --files0-from=- | tail -n 1 | cut -f1)
    [ "$size" -le $limit ] || fail "$crate: $size KiB in the package, where $limit are the limit"
    say "$crate: $(wc -l <<<"$list") files, $size KiB"
done

# Everything else stays at home.
for manifest in crates/*/Cargo.toml bench/Cargo.toml fuzz/Cargo.toml; do
    crate=$(basename "$(dirname "$manifest")")
    case " $PUBLIC " in
    *" $crate "*) ! grep -q '^publish = false' "$manifest" || fail "$manifest: may not be published" ;;
    *) grep -q '^publish = false' "$manifest" || fail "$manifest: lacks \"publish = false\"" ;;
    esac
done

if run timeout 120 cargo info --registry crates-io thiserror >/dev/null 2>&1; then
    # What an earlier run unpacked and compiled has the same versions, and would be taken for this
    # run's.
    home=${CARGO_HOME:-$HOME/.cargo}/registry
    rm -rf "$home"/src/-*/sapwood-* "$home"/cache/-*/sapwood-* "$TARGET/publish"
    CARGO_TARGET_DIR="$TARGET/publish" run cargo publish --workspace --dry-run --locked --allow-dirty
else
    say "The registry cannot be reached here: the dry run of the publication is left out."
fi
