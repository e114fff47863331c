package machine_test

import (
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/runner/policy"
	"github.com/parawork/parawork/runner/wire"
)

// rigs are machines by the folder of the executor that uses one: the same one after a restart of the server.
func conformance(t *testing.T, change func(*rig)) executortest.Config {
	rigs := make(map[string]*rig)
	turn := make(chan struct{}, 1)
	return executortest.Config{Deliver: executortest.Deliver, New: func(t *testing.T, dir string) executors.Executor {
		turn <- struct{}{}
		defer func() { <-turn }()
		if rigs[dir] == nil {
			rigs[dir] = newRig(t, dir, policy.Default(), nil)
		}
		return remote{rigs[dir]}
	}}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	executortest.Run(t, conformance(t, nil))
}

func ask(workspace string) wire.Make {
	return wire.Make{ID: id.New("sbx"), TeamID: "team_1", WorkspaceID: workspace, Key: "PW-1", Slug: "thing"}
}
