package bubblewrap

import (
	"fmt"
	"path/filepath"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/schema"
)

// Descriptor is the kind for the registry.
func Descriptor() executors.Descriptor {
	return executors.Descriptor{
		Kind: Kind, Label: "Process sandbox", Rank: 1, Boundary: executors.ProcessBoundary, Auto: true, Free: true, OnServer: true, Settings: settings, Docs: "docs/isolation.md",
		New: func(d executors.Deps) (executors.Executor, error) {
			return New(Config{Enabled: d.Settings.On("enabled"), Dir: d.Dir, GuestPath: d.GuestPath, Groups: d.Groups, Paths: d.Settings.List("paths"),
				TmpMB: d.Settings.Number("tmpMB"), Log: d.Log})
		},
		HostPaths: func(v schema.Values) []string { return v.List("paths") },
	}
}

// settings are those of sandboxing.bubblewrap.
var settings = schema.Schema{
	{Key: "enabled", Type: schema.Boolean, Default: true},
	{Key: "paths", Type: schema.List, Check: func(v any) string { // files and folders of the host shown read-only inside, beside the system's own
		for _, p := range v.([]string) {
			if !filepath.IsAbs(p) || filepath.Clean(p) == "/" {
				return fmt.Sprintf("%q must be an absolute path such as /opt/node, and not the whole machine", p)
			}
		}
		return ""
	}},
	{Key: "tmpMB", Type: schema.Number, Default: defaultTmpMB, Min: 16}, // how large a sandbox's own /tmp may grow, MiB
}
