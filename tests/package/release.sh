#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/release on a clone of this tree, with a throw-away key and invented people: everything is made twice with equal bytes,
# also the images' bills of materials, provenance and signatures (REL-59), and verified by the commands of docs/releases.md. A
# placeholder, a tree that differs from its commit, a version that disagrees, a key that nobody named, a changed byte and a wrong signature
# are refused. The short form makes the image of this architecture alone, with the compiler cache; the long form both, without.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib/common.sh"

WORK=$(mktemp -d "${TMPDIR:-/tmp}/release.XXXXXX")
trap 'rm -rf "$WORK"' EXIT
CLONE=$WORK/clone
VERSION=$(sed -n 's/^project(sluice VERSION \([0-9.]*\) .*/\1/p' "$SLUICE_ROOT/CMakeLists.txt")
MADE=$WORK/made
ARCH=$(dpkg --print-architecture)
HOW=(--arch "$ARCH" --cached)
[[ -z ${SLUICE_LONG:-} ]] || HOW=(--arch all)
HELM=${HELM:-$("$SLUICE_ROOT/scripts/lib/helm")}
export HELM

# in_clone COMMAND...: runs it without what the environment says of this tree, at the time of a commit that never changes.
in_clone() {
	(cd "$CLONE" && env -u SLUICE_BUILD_ROOT -u SOURCE_DATE_EPOCH GIT_AUTHOR_DATE=@1700000000 GIT_COMMITTER_DATE=@1700000000 "$@")
}

commit() {
	in_clone git add --all
	in_clone git -c user.name=nobody -c user.email=nobody@invalid commit --quiet --message "$1"
}

key() {
	openssl genpkey -algorithm ed25519 -out "$WORK/$1.key" 2>/dev/null
	openssl pkey -in "$WORK/$1.key" -pubout -out "$WORK/$1.pub"
}

# fingerprint NAME: what MAINTAINERS.md says of a key.
fingerprint() { openssl pkey -pubin -in "$WORK/$1.pub" -outform DER | sha256sum | cut -d' ' -f1; }

clone() {
	mkdir "$CLONE"
	(cd "$SLUICE_ROOT" && tree_files '*' | tar --create --files-from -) | tar --extract --directory "$CLONE"
	in_clone git init --quiet
	commit "as it is"
}

# people_and_changes: fills in what people have to, and closes the section of this version in the change log.
people_and_changes() {
	sed -i -E "s/^- Release key: UNSET.*/- Release key: $(fingerprint right)/; s|^- Repository: UNSET.*|- Repository: https://git.invalid/sluice|; s/UNSET\(.*\)/Nobody/" \
		"$CLONE/MAINTAINERS.md"
	sed -i -E "s/^## ${VERSION//./\\.} \(unreleased\)$/## $VERSION (2026-01-01)/" "$CLONE/CHANGELOG.md"
	sed -i '/^## Unreleased$/,/^## /{/^## Unreleased$/d;/^## /!d}' "$CLONE/CHANGELOG.md"
}

# refused WORDS COMMAND...: COMMAND fails in the clone, and says WORDS.
refused() {
	local said
	! said=$(in_clone "${@:2}" 2>&1) || die "not refused: $1"
	[[ $said == *"$1"* ]] || die "not refused because of '$1': $said"
	printf 'refused: %s\n' "$1"
}

make_release() { in_clone scripts/release make "$WORK/right.key" --output "$MADE" "${HOW[@]}"; }
refuses() { refused "$1" scripts/release make "$WORK/right.key" --output "$MADE" "${HOW[@]}"; }
verify() { in_clone scripts/release verify "$WORK/${2:-right}.pub" "$1"; }

# requirements: what a release needs and lacks, one after the other; each is put right afterwards.
requirements() {
	refuses "MAINTAINERS.md: unset: Security contact"
	people_and_changes
	refuses "the tree differs from its commit"
	sed -i "s/^- Security contact: .*/- Security contact: UNSET(again)/" "$CLONE/MAINTAINERS.md"
	commit "a placeholder"
	refuses "MAINTAINERS.md: unset: Security contact"
	sed -i "s/^- Security contact: .*/- Security contact: Nobody/" "$CLONE/MAINTAINERS.md"
	sed -i "s/newTag: .*/newTag: 0.0.9/" "$CLONE/k8s/deploy/kustomization.yaml"
	sed -i "s/^#define LB_LAYOUT .*/#define LB_LAYOUT 99/" "$CLONE/maps/abi/abi.h"
	commit "a version and a layout"
	refuses "k8s/deploy/kustomization.yaml names version 0.0.9"
	refuses "begins with 'Map layout 99'"
	cp "$SLUICE_ROOT/k8s/deploy/kustomization.yaml" "$CLONE/k8s/deploy/"
	cp "$SLUICE_ROOT/maps/abi/abi.h" "$CLONE/maps/abi/"
	commit "ready"
	in_clone git tag "v$VERSION" HEAD~1
	refuses "is released: the tag is at"
	in_clone git tag --delete "v$VERSION" >/dev/null
	refused "does not name this key" scripts/release make "$WORK/other.key" --output "$MADE" "${HOW[@]}"
}

# page_commands: runs the commands by which docs/releases.md verifies a release, which need no clone.
page_commands() {
	local block
	block=$(awk '/^## Verify one/ { here = 1 } /^```$/ { code = 0 } here && code { print } /^```sh$/ { code = 1 } /^## Provenance/ { here = 0 }' "$SLUICE_ROOT/docs/releases.md")
	[[ $block == *openssl*sha256sum* ]] || die "docs/releases.md has no commands: $block"
	cp -a "$MADE" "$WORK/user"
	cp "$WORK/right.pub" "$WORK/user/sluice.pub"
	(cd "$WORK/user" && bash -euc "$block" >"$WORK/user.log" 2>&1) || die "docs/releases.md: $(cat "$WORK/user.log")"
	printf 'verified by the commands of docs/releases.md\n'
}

# complete: the files that docs/releases.md lists, and what the provenance says of the clone.
complete() {
	local said=$WORK/statement.json
	for each in "sluice-$VERSION-$ARCH".{oci.tar,payload.json,payload.sig,spdx.json} "sluice-$VERSION".{tgz,intoto.jsonl} "sluice_${VERSION}_$ARCH.deb" \
		"sluice-$VERSION"-{source.tar.gz,notes.md} SHA256SUMS SHA256SUMS.sig; do
		[[ -s $MADE/$each ]] || die "the release has no $each: $(ls "$MADE")"
	done
	[[ -z ${SLUICE_LONG:-} || -s $MADE/sluice-$VERSION-arm64.oci.tar ]] || die "the release has no image for arm64"
	jq -r .payload "$MADE/sluice-$VERSION.intoto.jsonl" | base64 -d >"$said"
	jq -e --arg commit "$(in_clone git rev-parse HEAD)" '._type == "https://in-toto.io/Statement/v1" and .predicateType == "https://slsa.dev/provenance/v1"
		and .predicate.buildDefinition.resolvedDependencies[0].digest.gitCommit == $commit
		and ([.predicate.buildDefinition.resolvedDependencies[].uri | select(startswith("pkg:deb/debian/clang-19@"))] | length == 1)
		and (.predicate.runDetails.builder.id | startswith("https://git.invalid/sluice/"))' "$said" >/dev/null || die "the provenance: $(cat "$said")"
	prints "^# Sluice $VERSION" cat "$MADE/sluice-$VERSION-notes.md" || die "the notes: $(head -n 3 "$MADE/sluice-$VERSION-notes.md")"
}

# tampered WORDS COMMAND...: after COMMAND in a copy of the release, verify fails and says WORDS.
tampered() {
	rm -rf "$WORK/copy"
	cp -a "$MADE" "$WORK/copy"
	(cd "$WORK/copy" && "${@:2}")
	refused "$1" scripts/release verify "$WORK/right.pub" "$WORK/copy"
}

# signed_again: signs the checksums again, with the right key: only the provenance is left to notice.
signed_again() { "$CLONE/scripts/package" sign "$WORK/right.key" --output . >/dev/null; }
another_chart() { cp "sluice-$VERSION-source.tar.gz" "sluice-$VERSION.tgz" && signed_again; }
another_statement() {
	python3 - "sluice-$VERSION.intoto.jsonl" <<-'PYTHON'
		import base64, json, sys
		said = json.load(open(sys.argv[1]))
		payload = json.loads(base64.b64decode(said["payload"]))
		payload["predicate"]["buildDefinition"]["resolvedDependencies"][0]["digest"]["gitCommit"] = "0" * 40
		said["payload"] = base64.b64encode(json.dumps(payload).encode()).decode()
		json.dump(said, open(sys.argv[1], "w"))
	PYTHON
	signed_again
}
by_another_key() { "$CLONE/scripts/package" sign "$WORK/other.key" --output . >/dev/null; }
one_byte() { printf x | dd of="sluice-$VERSION-source.tar.gz" bs=1 seek=1000 conv=notrunc status=none; }
one_signature_byte() { printf x | dd of=SHA256SUMS.sig bs=1 seek=10 conv=notrunc status=none; }

tampering() {
	tampered "not as signed: sluice-$VERSION-source.tar.gz" one_byte
	tampered "SHA256SUMS is not signed with this key" one_signature_byte
	tampered "SHA256SUMS is not signed with this key" by_another_key
	tampered "other files than those signed" touch more
	tampered "not as signed" rm "sluice-$VERSION-notes.md"
	tampered "is of other files than these: sluice-$VERSION.tgz" another_chart
	tampered "intoto.jsonl is not signed with this key" another_statement
	refused "is not signed with this key" scripts/release verify "$WORK/other.pub" "$MADE"
}

key right
key other
clone
requirements
if [[ -n ${SLUICE_LONG:-} ]]; then
	mkdir -p "$CLONE/build"
	cp -al "$("$SLUICE_ROOT/scripts/lib/sysroot" arm64)" "$CLONE/build/"
fi
make_release
complete
page_commands
verify "$MADE"
tampering
