package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"

	"github.com/parawork/parawork/executors"
)

const poolUsage = `usage: parawork kubernetes pool [--config FILE] [--replicas N]

Prints a SandboxTemplate and a SandboxWarmPool of kubernetes-sigs/agent-sandbox for the settings in config.json, to be given to kubectl apply -f -.
Their name is sandboxing.kubernetes.warmPool, or parawork.

  --replicas N  how many sandboxes wait (default: 2)
`

var poolVerb = executors.Verb{Name: "pool", Flags: "[--replicas N], --config FILE", Usage: poolUsage, Run: printPool}

func printPool(_ context.Context, c executors.CommandLine) error {
	fs := flag.NewFlagSet("kubernetes pool", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(fs.Output(), poolUsage) }
	file, replicas := fs.String("config", "", "config.json"), fs.Int("replicas", 2, "how many sandboxes wait")
	if err := c.Parse(fs, c.Args); err != nil {
		return err
	}
	if *replicas < 0 {
		return errors.New("--replicas must not be negative")
	}
	v, _, err := c.Config(*file)
	if err != nil {
		return err
	}
	set, err := FromValues(v).Normal()
	if err != nil {
		return err
	}
	out := json.NewEncoder(c.Output)
	out.SetIndent("", "  ")
	return out.Encode(poolOf(set, *replicas))
}

// poolOf is a pool of agent-sandbox whose pods are like ours. Its controller manages no NetworkPolicy: policies add up, and the controller's lets
// pods reach the internet.
func poolOf(set Settings, replicas int) any {
	if set.WarmPool == "" {
		set.WarmPool = "parawork"
	}
	c := &cluster{set: set}
	r := record{Image: set.Image, CPUs: set.CPUs, MemoryMB: set.MemoryMB}
	p, v := c.podOf("", "", r), c.claimOf("", "", r)
	template := map[string]any{"networkPolicyManagement": "Unmanaged", "podTemplate": map[string]any{
		"metadata": map[string]any{"labels": map[string]string{labelManaged: managedBy},
			"annotations": map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}},
		"spec": &p.Spec}}
	if set.KeepDisk {
		p.Spec.Volumes = p.Spec.Volumes[:1] // the other is the template's
		template["volumeClaimTemplates"] = []any{map[string]any{"metadata": map[string]string{"name": "disk"}, "spec": v.Spec}}
	}
	object := func(kind string, spec any) any {
		return map[string]any{"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": kind, "metadata": map[string]string{"name": set.WarmPool, "namespace": set.Namespace}, "spec": spec}
	}
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{object("SandboxTemplate", template),
		object("SandboxWarmPool", map[string]any{"replicas": replicas, "sandboxTemplateRef": map[string]string{"name": set.WarmPool}})}}
}
