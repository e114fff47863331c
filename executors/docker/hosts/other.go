//go:build !linux && !darwin

package hosts

import (
	"context"
	"errors"

	"github.com/parawork/parawork/executors"
)

func newExecutor(executors.Deps) (executors.Executor, error) { return nil, nil }

// Check fails: this system runs no server.
func Check(context.Context, Settings) ([]Found, error) {
	return nil, errors.New("Docker hosts need a server on Linux or macOS")
}
