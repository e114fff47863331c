package runner

import (
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/schema"
)

// Descriptor is the kind for the registry: a family, whose members are the machines that people connect.
func Descriptor() executors.Descriptor {
	return executors.Descriptor{Kind: executors.Runner, Label: "Members' own machines", Rank: 5, Family: true, Settings: settings, Docs: "docs/runner.md",
		Idle: executors.IdleRule{Owned: true}}
}

// settings are those of sandboxing.runner.
var settings = schema.Schema{
	{Key: "enabled", Type: schema.Boolean, Default: true},
	{Key: "downloadsDir", Type: schema.Path}, // of the programs that are offered for machines; "" = downloads beside the server's own
}
