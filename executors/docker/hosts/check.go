//go:build linux || darwin

package hosts

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

func newExecutor(d executors.Deps) (executors.Executor, error) {
	return New(Config{Dir: d.Dir, GuestPath: d.GuestPath, Agents: d.Agents, Log: d.Log,
		Settings: func(ctx context.Context) Settings { return FromValues(d.Now(ctx)) }})
}

// Check tries every host and starts nothing. The error names each one that cannot be used.
func Check(ctx context.Context, s Settings) ([]Found, error) {
	dir, err := os.MkdirTemp("", "parawork-docker-hosts")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	e, err := New(Config{Dir: dir, Settings: func(context.Context) Settings { return s }})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	all, err := e.engines(ctx)
	if err != nil {
		return nil, err
	}
	type answer struct {
		found Found
		err   error
	}
	answers := each(all, func(en *engine) answer {
		ctx, cancel := context.WithTimeout(ctx, connectIn)
		defer cancel()
		if err := en.link.reach(ctx); err != nil {
			return answer{err: err}
		}
		info, err := en.About(ctx)
		if err != nil {
			return answer{err: fault.Wrap(err, fault.Unavailable, "docker_host_engine", "The Docker engine of %s does not answer: %s.", en.host.Name, strings.TrimSuffix(plain(err.Error()), "."))}
		}
		free, err := en.free(ctx)
		return answer{Found{en.host.Name, plain(info.ServerVersion), info.NCPU, info.MemTotal, free}, err}
	})
	var out []Found
	var wrong []string
	for _, a := range answers {
		if out = append(out, a.found); a.err != nil {
			err, wrong = cmp.Or(err, a.err), append(wrong, words(a.err))
		}
	}
	switch len(wrong) {
	case 0:
		return out, nil
	case 1:
		return nil, err
	}
	return nil, fault.Wrap(err, fault.Unavailable, "docker_hosts_unreachable", "%s", strings.Join(wrong, " "))
}

// words are what people read of an error.
func words(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Message
	}
	return plain(err.Error()) + "."
}
