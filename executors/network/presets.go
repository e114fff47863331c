package network

import (
	"maps"
	"slices"
)

// agentsPreset marks the hosts agents need. It applies automatically in list mode, and cannot be written in a list.
const agentsPreset = "@agents"

// presets are names that stand for many hosts in a list.
var presets = map[string][]string{
	"@registries": {
		"registry.npmjs.org", "registry.yarnpkg.com", "repo.yarnpkg.com", "nodejs.org", "npm.jsr.io", "jsr.io",
		"pypi.org", "files.pythonhosted.org",
		"proxy.golang.org", "sum.golang.org", "go.dev", "dl.google.com",
		"index.crates.io", "static.crates.io", "crates.io", "static.rust-lang.org",
		"rubygems.org", "index.rubygems.org",
		"repo.maven.apache.org", "repo1.maven.org", "plugins.gradle.org", "services.gradle.org",
		"repo.packagist.org", "packagist.org", "api.nuget.org",
		"deb.debian.org", "security.debian.org", "archive.ubuntu.com", "security.ubuntu.com", "dl-cdn.alpinelinux.org",
	},
	"@git": {
		"github.com", "api.github.com", "codeload.github.com", "objects.githubusercontent.com", "raw.githubusercontent.com", "ssh.github.com:443",
		"gitlab.com", "bitbucket.org", "codeberg.org",
	},
}

func presetNames() []string { return slices.Sorted(maps.Keys(presets)) }

// agentHosts returns the hosts the available agents need, and those of the addresses the operator gives them.
func agentHosts(hosts, urls []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(hosts, hostsOf(urls)))))
}
