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

// maxBody limits the body of a judged request: arguments and environment at their limits, escaped.
const maxBody = 4 * guest.MaxJSON

// allowed is a request that may be passed on.
type allowed struct {
	body []byte // instead of the original body; nil = the original
	spec *guest.ProcessSpec
	ends bool // the guest itself
}

// plainPath matches every path of the protocol. A path that the guest might interpret differently never reaches it.
var plainPath = regexp.MustCompile(`^/v1(/[A-Za-z0-9_.-]+)+$`)

// judge says whether a request may reach the guest. It reads the body of requests that are not streams.
func (g *Guard) judge(r *http.Request, t Target) (allowed, error) {
	given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if t.Token == "" || subtle.ConstantTimeCompare([]byte(given), []byte(t.Token)) != 1 {
		return allowed{}, fault.New(fault.Unauthorized, "guest_unauthorized", "The machine does not know this server.")
	}
	path := r.URL.EscapedPath()
	if !plainPath.MatchString(path) || strings.Contains(path, "/..") || strings.Contains(path, "/./") {
		return allowed{}, fault.New(fault.NotFound, "guest_route_unknown", "The sandbox's guest has no such endpoint.")
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

// read reads the body of a request that is not a stream.
func (g *Guard) read(r *http.Request, path string) (allowed, error) {
	if guest.Streams(r.Method, path) {
		return allowed{}, nil
	}
	b, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return allowed{}, fmt.Errorf("reading a request to the guest: %w", err)
	}
	if len(b) > maxBody {
		return allowed{}, fault.New(fault.TooLarge, "request_too_large", "A request to a guest has at most %d bytes.", maxBody)
	}
	if b == nil {
		b = []byte{}
	}
	return allowed{body: b}, nil
}

// describe returns what to ask the owner, if anything: ask.Kind stays "" for what belongs to something allowed before, such as the input of
// a process, or its end.
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
		// Pass on the parsed form: two readers may interpret the same bytes differently.
		b, err := json.Marshal(spec)
		if err != nil {
			return err
		}
		ask.Kind, ask.Argv, ask.Path = policy.KindProcess, spec.Argv, spec.Cwd
		a.body, a.spec = b, &spec
	case part[0] == "processes" && len(part) > 1:
		// Its input, a signal, its end: allowed when it was started.
	case part[0] == "hooks", part[0] == "gateway", part[0] == "tools":
		// An answer to an agent's question, and an agent's connections to its model and to the server's tools: all were allowed when the
		// agent was started.
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
		// It stays in the guest's own folder until it is unpacked.
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
