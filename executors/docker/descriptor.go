package docker

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/schema"
)

// Descriptor is the kind for the registry.
func Descriptor() executors.Descriptor {
	return executors.Descriptor{
		Kind: Kind, Label: "Docker", Rank: 3, Boundary: executors.ContainerBoundary, OnServer: true, Settings: settings, Docs: "docs/docker.md",
		Verbs: []executors.Verb{buildVerb},
		Idle:  executors.IdleRule{Usual: 30 * time.Minute},
		New: func(d executors.Deps) (executors.Executor, error) {
			if !d.Settings.On("enabled") {
				return nil, nil
			}
			return New(Config{Dir: d.Dir, GuestPath: d.GuestPath, Host: d.Settings.Text("host"), Image: d.Settings.Text("image"), Runtime: d.Settings.Text("runtime"), Log: d.Log})
		},
		Images: func(v schema.Values) executors.ImageRules {
			return executors.ImageRules{Default: v.Text("image"), Projects: v.On("projectImages"), Host: v.List("hostImages"), BuildNetwork: v.Text("buildNetwork")}
		},
	}
}

// settings are those of sandboxing.docker.
var settings = schema.Schema{
	{Key: "enabled", Type: schema.Boolean, Default: true},
	{Key: "host", Type: schema.Text, Check: func(v any) string {
		u, err := url.Parse(v.(string))
		if v != "" && (err != nil || !slices.Contains([]string{"unix", "tcp", "ssh", "http", "https"}, u.Scheme)) {
			return "must be an address such as unix:///var/run/docker.sock"
		}
		return ""
	}},
	{Key: "image", Type: schema.Text, Default: "parawork-agent", Check: func(v any) string {
		if v == "" {
			return "must name an image"
		}
		return ""
	}},
	{Key: "runtime", Type: schema.Text},
	{Key: "projectImages", Type: schema.Boolean, Default: true}, // projects may name and build images of their own
	// The engine's images that projects may use although no registry gives them to everybody. None: all of them while there is one team, none
	// beside the configured one once there are more.
	{Key: "hostImages", Type: schema.List, Check: func(v any) string {
		for _, p := range v.([]string) {
			if _, err := path.Match(p, ""); err != nil || p == "" {
				return fmt.Sprintf("%q is no name or pattern of an image, such as node:22, tools/* or *", p)
			}
		}
		return ""
	}},
	{Key: "buildNetwork", Type: schema.Text}, // the engine's, for the steps of such builds
}
