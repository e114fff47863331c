package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/mcpserver"
	"github.com/parawork/parawork/tools/remote"
)

const mcpUsage = `usage: parawork mcp --server URL --token TOKEN [--team SLUG]

Offers Parawork's tools to an agent on this computer by the Model Context Protocol, over standard input and output. Put the
token into PARAWORK_TOKEN rather than on the command line, where other users of this computer see it. Make one in Parawork:
Account, API tokens. The flags have twins: PARAWORK_SERVER, PARAWORK_TOKEN, PARAWORK_TEAM.
`

// elsewhere is what commands that work with a server somewhere else are given: its address and a token.
type elsewhere struct{ server, token, team, workspace string }

// flags adds the flags to a set.
func (e *elsewhere) flags(fs *flag.FlagSet) {
	fs.StringVar(&e.server, "server", "", "address of the server, such as https://parawork.example.com")
	fs.StringVar(&e.token, "token", "", "API token")
	fs.StringVar(&e.team, "team", "", "short name of the team; needed only if you are in several")
}

// check says what is missing or wrong.
func (e *elsewhere) check() error {
	e.server = strings.TrimRight(e.server, "/")
	u, err := url.Parse(e.server)
	switch {
	case e.server == "":
		return errors.New("no server is named: give --server or set PARAWORK_SERVER, such as https://parawork.example.com")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Path != "" || u.RawQuery != "":
		return fmt.Errorf("%q is not the address of a server: write it as https://parawork.example.com", e.server)
	case e.token == "":
		return errors.New("no API token is given: set PARAWORK_TOKEN, or give --token. Make one in Parawork under Account, API tokens")
	}
	return nil
}

// insecure reports whether the token would cross a network unencrypted.
func (e *elsewhere) insecure() bool {
	u, err := url.Parse(e.server)
	return err == nil && u.Scheme == "http" && !rest.LoopbackHost(u.Host)
}

// client returns what carries requests, with the token. It follows no redirect: the token is for the named server alone.
func (e *elsewhere) client() *http.Client {
	return &http.Client{Transport: bearing{e.token, http.DefaultTransport}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// bearing adds the token to each request.
type bearing struct {
	token string
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// mcp serves an MCP client at standard input and output until that ends, or the program that started this one does.
func (p program) mcp(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("mcp", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(p.stderr, mcpUsage) }
	var at elsewhere
	at.flags(fs)
	if err := p.parse(fs, args); err != nil {
		return err
	}
	if err := at.check(); err != nil {
		fmt.Fprintf(p.stderr, "parawork mcp: %v.\n", err)
		return errUsage
	}
	if at.insecure() {
		fmt.Fprintln(p.stderr, "parawork mcp: the token crosses the network unencrypted: use https.")
	}
	client := at.client()
	switch err := remote.New(remote.Config{Doer: client, Server: at.server}).Check(ctx); {
	case fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Timeout): // it may come up while the agent works
		fmt.Fprintf(p.stderr, "parawork mcp: %v\n", fault.Words(err, err.Error()))
	case err != nil:
		return errors.New(fault.Words(err, err.Error()))
	}

	ctx, end := context.WithCancel(ctx)
	defer end()
	go whileParentLives(ctx, end)
	s := mcpserver.New(mcpserver.Config{Specs: remote.Specs(), Name: "parawork", Title: "Parawork", Version: version, Instructions: remote.Instructions,
		Call: func(within context.Context, name, tool string, args json.RawMessage) (tools.Result, error) {
			within, cancel := context.WithCancel(within) // the SDK detaches it from ours
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			return remote.New(remote.Config{Doer: client, Server: at.server, Team: at.team, Client: name + " (MCP)"}).Call(within, tool, args)
		}})
	err := s.Run(ctx, &mcp.IOTransport{Reader: ending{p.stdin, end}, Writer: unclosed{p.stdout}})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil // the client has gone
	}
	return err
}

// ending reads the client's messages, and calls end after the last.
type ending struct {
	io.Reader
	end func()
}

func (e ending) Read(b []byte) (int, error) {
	n, err := e.Reader.Read(b)
	if err != nil {
		e.end()
	}
	return n, err
}

// Close implements io.Closer. A read of standard input that waits cannot be ended; the process ends instead.
func (e ending) Close() error { return nil }

type unclosed struct{ io.Writer }

// Close implements io.Closer.
func (unclosed) Close() error { return nil }

// whileParentLives calls end when the program that started this one has ended: some leave our standard input open.
func whileParentLives(ctx context.Context, end func()) {
	parent := os.Getppid()
	t := time.NewTicker(5 * time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if os.Getppid() != parent {
				end()
				return
			}
		}
	}
}
