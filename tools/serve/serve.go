// Package serve serves the tools to the agents in sandboxes: by the Model Context Protocol, and as the answer to the command
// `parawork`. It says who calls, and asks at each call whether the person who started the session may still do so.
//
// Goroutines: a command has one that notices when its program is gone; the others are those of mcpserver. It holds no lock.
package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/toolrelay"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/cli"
	"github.com/parawork/parawork/tools/mcpserver"
	"github.com/parawork/parawork/tools/tasks/bd"
	"github.com/parawork/parawork/workspaces"
)

// Config configures a Server.
type Config struct {
	Tools      *tools.Set
	People     People
	Workspaces Workspaces
	Groups     Groups
	// Narrow returns the only groups and tools that the agent of a session may use because it is a subagent; nil when it may use all that
	// are on in its project. Nil: every agent may.
	Narrow func(ctx context.Context, sessionID string) ([]string, error)
	// Admit rejects a user who may not have anything done in a place of this kind. Nil: everybody may.
	Admit func(ctx context.Context, kind executors.Kind, userID string) error
	// Languages serves clients of language servers. Nil: there are none.
	Languages Languages
	Version   string // of this program
	Log       *slog.Logger
}

// People knows users.
type People interface {
	Actor(ctx context.Context, userID string) (accounts.Actor, error)
}

// Workspaces knows workspaces.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
}

// Groups knows which groups of tools a project has on.
type Groups interface {
	Selection(ctx context.Context, projectID string) (tools.Selection, error)
}

// Languages are the language servers of workspaces.
type Languages interface {
	// ServeClient serves a program that speaks the language server protocol. allow is asked before each question.
	ServeClient(ctx context.Context, by tools.Caller, allow func(context.Context) error, conn io.ReadWriteCloser) error
}

// Server serves tools. Safe for concurrent use.
type Server struct {
	cfg   Config
	specs []tools.Spec
}

// New returns a Server.
func New(cfg Config) *Server {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{cfg, cfg.Tools.Specs()}
}

var _ toolrelay.Server = (*Server)(nil)

// commandClient is what calls by the command line are recorded as.
const commandClient = "parawork"

// instructions are for the model, which reads them at every turn.
const instructions = "Tools of Parawork, the server that runs this session for a team. Results are shared: people and other agents see them. " +
	"The shell command `parawork` has the same tools and some more; `parawork --help` lists them."

// ServeTools serves one connection of a session until it or ctx ends.
func (s *Server) ServeTools(ctx context.Context, of toolrelay.Session, use guest.ToolUse, conn net.Conn) {
	var err error
	switch use {
	case guest.UseMCP:
		err = s.serveMCP(ctx, of, conn)
	case guest.UseCommand:
		err = s.serveCommand(ctx, of, conn)
	case guest.UseLSP:
		err = s.serveLanguage(ctx, of, conn)
	default:
		err = fmt.Errorf("unknown use %q", use)
	}
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.DebugContext(ctx, "a connection to the tools ended", "session_id", of.ID, "use", use, "error", err)
	}
}

func (s *Server) serveMCP(ctx context.Context, of toolrelay.Session, conn net.Conn) error {
	return mcpserver.ServeConn(ctx, conn, mcpserver.Config{
		Specs: s.specs, Name: "parawork", Title: "Parawork", Version: s.cfg.Version, Instructions: instructions, Log: s.cfg.Log.With("session_id", of.ID),
		Listed: func(context.Context) ([]tools.Spec, error) {
			c, err := s.Caller(ctx, of, "")
			return tools.Listed(s.specs, c.Groups), err
		},
		Call: func(callCtx context.Context, client, name string, args json.RawMessage) (tools.Result, error) {
			c, err := s.Caller(callCtx, of, client)
			if err != nil {
				return tools.Result{}, err
			}
			return s.cfg.Tools.Call(callCtx, c, name, args)
		},
	})
}

func (s *Server) serveLanguage(ctx context.Context, of toolrelay.Session, conn net.Conn) error {
	if s.cfg.Languages == nil {
		return errors.New("there are no language servers")
	}
	c, err := s.Caller(ctx, of, commandClient)
	if err != nil {
		return err
	}
	return s.cfg.Languages.ServeClient(ctx, c, func(ctx context.Context) error {
		c, err := s.Caller(ctx, of, commandClient)
		if err == nil && !c.Groups.Has("language_servers") {
			err = fault.New(fault.Forbidden, "tool_off", "The project has switched its language servers off for agents.")
		}
		return err
	}, conn)
}

// Caller says who calls, and whether they may: what the API asks of who calls a tool in a workspace, it asks of who started the
// session.
func (s *Server) Caller(ctx context.Context, of toolrelay.Session, client string) (c tools.Caller, err error) {
	w, err := s.cfg.Workspaces.Workspace(ctx, of.WorkspaceID)
	if err != nil {
		return c, err
	}
	if err := s.allow(ctx, of, w); err != nil {
		return c, err
	}
	c = tools.Caller{TeamID: of.TeamID, WorkspaceID: of.WorkspaceID, SessionID: of.ID, UserID: of.UserID, Agent: of.Agent, Client: client}
	if c.Groups, err = s.cfg.Groups.Selection(ctx, w.ProjectID); err != nil || s.cfg.Narrow == nil {
		return c, err
	}
	c.Groups.Only, err = s.cfg.Narrow(ctx, of.ID)
	return c, err
}

func (s *Server) allow(ctx context.Context, of toolrelay.Session, w workspaces.Workspace) error {
	actor, err := s.cfg.People.Actor(ctx, of.UserID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	object, err := s.object(ctx, actor, w)
	if err != nil {
		return err
	}
	switch err := accounts.Can(actor, accounts.EditWorkspace, object); {
	case fault.Is(err, fault.NotFound):
		return fault.New(fault.Forbidden, "tool_user_gone", "The person who started this session is no longer a member of the team, or may not see the workspace, so its agent may not use tools. Another member can start a new session.")
	case err != nil:
		return err
	}
	if s.cfg.Admit == nil {
		return nil
	}
	return s.cfg.Admit(ctx, executors.Kind(w.Executor), of.UserID)
}

// object is a workspace as the policy sees it: a private one whose owner has left is the admins'.
func (s *Server) object(ctx context.Context, actor accounts.Actor, w workspaces.Workspace) (accounts.Object, error) {
	o := accounts.Object{TeamID: w.TeamID, OwnerID: w.CreatedBy, Private: w.Private}
	if !w.Private || w.CreatedBy == actor.User.ID {
		return o, nil
	}
	owner, err := s.cfg.People.Actor(ctx, w.CreatedBy)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return o, err
	}
	if !owner.RoleIn(w.TeamID).Valid() {
		o.OwnerID = ""
	}
	return o, nil
}

// Bounds of a command.
const (
	maxCommand    = guest.MaxToolInput/3*4 + 2<<20 // bytes of the line: standard input in base64, and the words
	commandWithin = 30 * time.Second               // for the line to come
	answerWithin  = time.Minute                    // for the answer to be taken
)

func (s *Server) serveCommand(ctx context.Context, of toolrelay.Session, conn net.Conn) error {
	_ = conn.SetReadDeadline(time.Now().Add(commandWithin))
	from := bufio.NewReaderSize(conn, 16<<10)
	line, err := readLine(from, maxCommand)
	if err != nil {
		return fmt.Errorf("reading a command: %w", err)
	}
	_ = conn.SetReadDeadline(time.Time{})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gone := make(chan struct{})
	go func() { // ends when the connection is closed below
		defer close(gone)
		_, _ = from.ReadByte()
		cancel()
	}()
	answer := s.run(ctx, of, line)
	_ = conn.SetWriteDeadline(time.Now().Add(answerWithin))
	_, err = conn.Write(answer)
	_ = conn.Close()
	<-gone
	return err
}

// run runs a command and returns the line of its answer.
func (s *Server) run(ctx context.Context, of toolrelay.Session, line []byte) []byte {
	var a guest.ToolAnswer
	var c guest.ToolCommand
	var err error
	switch {
	case line == nil:
		err = fault.New(fault.TooLarge, "tool_command_too_large", "The command line and its standard input are larger than %d bytes. Put the text into a file.", maxCommand)
	case json.Unmarshal(line, &c) != nil:
		err = fault.New(fault.Invalid, "tool_command_invalid", "The command cannot be read: it is no JSON object of this server's form.")
	default:
		var by tools.Caller
		if by, err = s.Caller(ctx, of, commandClient); err == nil {
			in := cli.Input{Argv: c.Argv, Dir: c.Dir, Stdin: c.Stdin}
			on := tools.On(s.specs, by.Groups)
			for _, spec := range s.specs {
				if !by.Groups.Has(spec.Group) {
					in.Off = append(in.Off, spec)
				}
			}
			call := func(ctx context.Context, name string, args json.RawMessage) (tools.Result, error) {
				return s.cfg.Tools.Call(ctx, by, name, args)
			}
			if len(c.Argv) > 0 && c.Argv[0] == "bd" { // as agents that know beads say it
				a.Exit, a.Stdout, a.Stderr = bd.Run(ctx, c.Argv[1:], c.Stdin, call)
			} else {
				a.Exit, a.Stdout, a.Stderr = cli.Run(ctx, in, on, call)
			}
		}
	}
	if err != nil {
		a.Exit, a.Stdout, a.Stderr = cli.Refuse(c.Argv, err)
	}
	out, err := json.Marshal(a)
	if err != nil || len(out) >= guest.MaxToolOutput {
		a.Exit, a.Stdout, a.Stderr = cli.Refuse(c.Argv, fault.New(fault.TooLarge, "tool_answer_too_large", "The answer is larger than %d bytes. What the tool did stays done.", guest.MaxToolOutput))
		out, _ = json.Marshal(a)
	}
	return append(out, '\n')
}

// readLine reads a line; nil without an error when it is too long.
func readLine(from *bufio.Reader, most int) ([]byte, error) {
	line := []byte{}
	for {
		part, err := from.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if line != nil {
			line = append(line, part...)
		}
		if len(line) > most {
			line = nil
		}
		if err == nil {
			return line, nil
		}
	}
}
