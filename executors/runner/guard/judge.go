package guard

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// maxBody bounds what is read of a request to be judged: arguments and environment at their limits, escaped.
const maxBody = 4 * guest.MaxJSON

// allowed is a request that may be passed on.
type allowed struct {
	body []byte // instead of what was sent; nil = that
	spec *guest.ProcessSpec
	ends bool // the guest itself
}

// plainPath is what every path of the protocol is like. What a guest could read in another way than this does not reach it.
var plainPath = regexp.MustCompile(`^/v1(/[A-Za-z0-9_.-]+)+$`)

// judge says whether a request may reach the guest. It reads the body of those that are not streams.
func (g *Guard) judge(r *http.Request, t Target) (allowed, error) {
	given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if t.Token == "" || subtle.ConstantTimeCompare([]byte(given), []byte(t.Token)) != 1 {
		return allowed{}, fault.New(fault.Unauthorized, "guest_unauthorized", "The machine does not know this server.")
	}
	path := r.URL.EscapedPath()
	if !plainPath.MatchString(path) || strings.Contains(path, "/..") || strings.Contains(path, "/./") {
		return allowed{}, fault.New(fault.NotFound, "guest_route_unknown", "The sandbox's guest answers no such question.")
	}
	if !guest.Changing(r.Method, path) {
		return allowed{}, nil
	}
	ask := policy.Ask{WorkspaceID: t.WorkspaceID, SandboxID: t.SandboxID}
	out, err := g.read(r, path)
	if err == nil {
		ask.Command, err = g.cfg.Checker.Check(wire.InPipe(t.SandboxID, r), out.body)
	}
	if err != nil {
		ask.Kind, ask.Text = policy.KindWrite, r.Method+" "+path
		g.cfg.Keeper.Refused(ask, err)
		return allowed{}, err
	}
	if err := out.describe(&ask, r, path, t); err != nil {
		g.cfg.Keeper.Refused(ask, err)
		return allowed{}, err
	}
	if ask.Kind == "" {
		return out, nil
	}
	return out, g.cfg.Keeper.Check(r.Context(), ask)
}

// read reads the body of what is not a stream.
func (g *Guard) read(r *http.Request, path string) (allowed, error) {
	if guest.Streams(r.Method, path) {
		return allowed{}, nil
	}
	b, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return allowed{}, fmt.Errorf("reading what the guest is asked: %w", err)
	}
	if len(b) > maxBody {
		return allowed{}, fault.New(fault.TooLarge, "request_too_large", "A question to a guest has at most %d bytes.", maxBody)
	}
	if b == nil {
		b = []byte{}
	}
	return allowed{body: b}, nil
}

// describe says what the owner is asked, if anything: ask.Kind stays "" for what belongs to something that was allowed before, such as the
// input of a process, or its end.
func (a *allowed) describe(ask *policy.Ask, r *http.Request, path string, t Target) error {
	part := strings.Split(strings.TrimPrefix(path, "/v1/"), "/")
	route := r.Method + " " + part[0]
	if len(part) > 1 {
		route += "/" + part[len(part)-1]
	}
	switch {
	case route == "POST processes":
		var spec guest.ProcessSpec
		if err := json.Unmarshal(a.body, &spec); err != nil || len(spec.Argv) == 0 {
			ask.Kind = policy.KindProcess
			return fault.Wrap(errors.Join(err, errNoProgram), fault.Invalid, "invalid_request", "The request names no program.")
		}
		// What was read is what is passed on: two readers of the same bytes may take them for different things.
		b, err := json.Marshal(spec)
		if err != nil {
			return err
		}
		ask.Kind, ask.Argv, ask.Path = policy.KindProcess, spec.Argv, spec.Cwd
		a.body, a.spec = b, &spec
	case part[0] == "processes" && len(part) > 1:
		// Its input, a signal, its end: it was allowed when it was started.
	case part[0] == "hooks", part[0] == "gateway":
		// An answer to an agent that asked, and a connection of an agent to its model: both were allowed when the agent was started.
	case part[0] == "ports":
		ask.Kind = policy.KindPort
		port, err := strconv.ParseUint(part[len(part)-1], 10, 16)
		if err != nil || len(part) != 2 {
			return fault.New(fault.Invalid, "invalid_port", "A port is a number from 1 to 65535.")
		}
		ask.Port = int(port)
	case route == "POST shutdown":
		a.ends = true
	case part[0] == "bundles" && r.Method == http.MethodPut:
		// It lies in the guest's own folder until it is unpacked.
	case part[0] == "bundles":
		ask.Kind, ask.Path, ask.Text = policy.KindWrite, t.Root, "the workspace's repository and its files"
	case route == "POST home":
		ask.Kind, ask.Path, ask.Text = policy.KindWrite, "~", "agents' settings and records in the workspace's home"
	default:
		ask.Kind, ask.Path = policy.KindWrite, guest.DecodePath(r.URL.Query().Get("path"))
		if r.URL.Query().Get("scope") == guest.ScopeHome {
			ask.Path = "~/" + ask.Path
		}
		if part[0] != "files" {
			ask.Text = r.Method + " " + path
		}
	}
	return nil
}

var errNoProgram = errors.New("no arguments")
