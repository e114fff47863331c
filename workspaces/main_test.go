package workspaces_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/internal/egress"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == connectorName { // this program as ssh's and git's way out
		if err := egress.Connect(context.Background(), os.Args[1:], os.Getenv, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
