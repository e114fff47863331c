package main

import "embed"

// assets are the guests for this system, and for containers on it. The build puts them there; .gitkeep lets a build without them pass.
//
//go:embed all:assets/darwin-arm64 all:assets/linux-arm64
var assets embed.FS
