package main

import (
	"context"
	"time"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/docker"
)

// farKind is the place on other machines, whose idle time operators set in the browser.
const farKind executors.Kind = "e2b"

const (
	dockerIdle    = 30               // idle minutes after which a container is ended where config.json does not say
	executionIdle = 10 * time.Minute // for what served single commands only, where idle sandboxes cost money
)

// idleAfter is how long a sandbox may be idle: for ever where it costs nothing but memory of the server's own, and on members' machines.
func idleAfter(cfg *config.Config) func(executors.Kind, executors.Purpose) time.Duration {
	return func(k executors.Kind, p executors.Purpose) time.Duration {
		if k == farKind {
			return farIdle(time.Duration(cfg.Sandboxing.E2B.AutoShutdownIdle)*time.Second, p)
		}
		if k == executors.Runner {
			return 0 // a member's own machine: its owner alone decides what runs there
		}
		if m := cfg.Sandboxing.IdleStopMinutes; m != nil {
			return time.Duration(*m) * time.Minute
		}
		if k == docker.Kind {
			return dockerIdle * time.Minute
		}
		return 0
	}
}

// farIdle is how long a sandbox that costs money may be idle: single commands come and go.
func farIdle(set time.Duration, p executors.Purpose) time.Duration {
	if p == executors.ForExecution {
		return min(set, executionIdle)
	}
	return set
}

// rules are the instance's words about places as they are now: operators change some of them in the browser.
func (h *house) rules() choice.Config {
	mc := placeRules(h.cfg, h.directory.CountTeams)
	usual := mc.IdleAfter
	mc.IdleAfter = func(k executors.Kind, p executors.Purpose) time.Duration {
		if k != farKind {
			return usual(k, p)
		}
		return farIdle(time.Duration(h.settings.Values(context.Background()).E2B.IdleMinutes)*time.Minute, p)
	}
	mc.Fallback = func(ctx context.Context, k executors.Kind) bool {
		return k == farKind && h.settings.Values(ctx).E2B.FallbackToLocal
	}
	return mc
}
