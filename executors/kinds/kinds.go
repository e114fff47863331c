// Package kinds is the registry of the kinds of places to run: one line for each. Only cmd imports it, and hands it to what needs to know which
// kinds there are.
package kinds

import (
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/boxlite"
	"github.com/parawork/parawork/executors/bubblewrap"
	"github.com/parawork/parawork/executors/cloudflare"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/executors/docker/hosts"
	"github.com/parawork/parawork/executors/e2b"
	"github.com/parawork/parawork/executors/kubernetes"
	"github.com/parawork/parawork/executors/local"
	"github.com/parawork/parawork/executors/runner"
	"github.com/parawork/parawork/executors/vercel"
)

// All are the kinds of places this program has.
func All() executors.Descriptors {
	return executors.NewDescriptors(
		bubblewrap.Descriptor(),
		local.Descriptor(),
		docker.Descriptor(),
		hosts.Descriptor(),
		e2b.Descriptor(),
		boxlite.Descriptor(),
		vercel.Descriptor(),
		cloudflare.Descriptor(),
		kubernetes.Descriptor(),
		runner.Descriptor(),
	)
}
