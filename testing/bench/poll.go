package main

import (
	"context"
	"os/exec"
	"strings"
	"time"

	"github.com/parawork/parawork/guest/changes"
)

// pollTimes takes turns between our poll of an unchanged tree and bare `git status`, n times each, in seconds.
func pollTimes(dir string, n int) (ours, base []float64, err error) {
	head, err := git(dir, "rev-parse", "HEAD")
	if err != nil {
		return nil, nil, err
	}
	for _, args := range [][]string{{"config", "core.untrackedCache", "true"}, {"update-index", "--untracked-cache"}, {"status", "--porcelain"}} {
		if _, err := git(dir, args...); err != nil {
			return nil, nil, err
		}
	}
	p := changes.New(changes.Config{Root: dir})
	defer p.Close()
	ctx := context.Background()
	if _, err := p.PollNow(ctx, strings.TrimSpace(head)); err != nil {
		return nil, nil, err
	}
	for range n {
		t0 := time.Now()
		if _, err := p.PollNow(ctx, strings.TrimSpace(head)); err != nil {
			return nil, nil, err
		}
		ours = append(ours, time.Since(t0).Seconds())
		t0 = time.Now()
		cmd := exec.Command("git", "status", "--porcelain=v2")
		cmd.Dir = dir
		if err := cmd.Run(); err != nil {
			return nil, nil, err
		}
		base = append(base, time.Since(t0).Seconds())
	}
	return ours, base, nil
}
