package workspaces_test

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

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == connectorName { // this program as ssh's and git's way out
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
