package git

import (
	"context"
	"path"
	"strings"

	"github.com/parawork/parawork/internal/hostgit"
)

// lockNames are files in which package managers record the versions they chose.
var lockNames = map[string]bool{
	"package-lock.json": true, "npm-shrinkwrap.json": true, "yarn.lock": true, "pnpm-lock.yaml": true, "bun.lock": true, "bun.lockb": true, "deno.lock": true,
	"go.sum": true, "cargo.lock": true, "composer.lock": true, "gemfile.lock": true, "poetry.lock": true, "pipfile.lock": true, "uv.lock": true, "pdm.lock": true,
	"mix.lock": true, "pubspec.lock": true, "podfile.lock": true, "flake.lock": true, "packages.lock.json": true, "gradle.lockfile": true,
}

// markGenerated sets the reason why a reader may skip a file.
func markGenerated(_ context.Context, _ *hostgit.Scratch, _, _ string, files []ChangedFile) error {
	for i := range files {
		if lockNames[strings.ToLower(path.Base(files[i].Path))] {
			files[i].Generated = "lock"
		}
	}
	return nil
}
