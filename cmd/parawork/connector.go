package main

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/internal/egress"
)

// connect is this program as the way out of ssh or git.
func (p program) connect(args []string) int {
	if err := egress.Connect(context.Background(), args, p.env, p.stdin, p.stdout); err != nil {
		fmt.Fprintln(p.stderr, "parawork:", err)
		return 1
	}
	return 0
}
