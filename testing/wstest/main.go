// Package wstest makes workspaces for tests: a team and its member, projects with repositories, sandboxes without isolation or with their
// own disk, and git as a user runs it. Everything is real except the sandboxes, which are folders.
//
// Only tests import it.
package wstest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/locks"
)

// Main runs the tests of a package. They fail when a goroutine outlives them, or when locks were taken out of order.
func Main(m *testing.M) {
	if filepath.Base(os.Args[0]) == ConnectorName { // this program as the proxy command of ssh and git
		if err := egress.Connect(context.Background(), os.Args[1:], os.Getenv, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	var breaches atomic.Int64
	locks.CheckOrder(func(breach string) {
		breaches.Add(1)
		fmt.Fprintf(os.Stderr, "%s\n%s\n", breach, debug.Stack())
	})
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if breaches.Load() > 0 {
			fmt.Fprintln(os.Stderr, "FAIL: locks were taken out of order, see above")
			code = 1
		}
		os.Exit(code)
	}))
}

// ConnectorName is the name of the test's own program when it is git's proxy command: see Main.
const ConnectorName = "test-connect"
