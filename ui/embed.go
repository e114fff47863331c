// Package ui serves the web app. The built files travel inside the binary; a build without them still compiles and serves a
// page that says what to do.
package ui

import (
	"embed"
	"io/fs"
)

// The all: prefix takes dist/.gitkeep along, so that the folder exists in a build that never saw Node.
//
//go:embed all:dist
var dist embed.FS

// Dist returns the embedded build: index.html, assets/ and what else Vite wrote. Without a build it holds no index.html.
func Dist() fs.FS {
	sub, err := fs.Sub(dist, "dist")
	if err != nil { // "dist" is a valid path: this cannot happen
		return dist
	}
	return sub
}

// Built reports whether the web app is part of this binary.
func Built() bool {
	_, err := fs.Stat(Dist(), indexFile)
	return err == nil
}
