package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/billing/gateway"
	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
)

// modelBody is as large as what Claude Code asks with its first prompt.
const modelBody = 85 << 10

// modelPieces are the pieces a streamed answer comes in, with so much between them.
const (
	modelPieces = 20
	modelPause  = 5 * time.Millisecond
)

// models measures the model gateway, with its real store, beside the same questions asked of the provider directly. The provider is on
// this machine, so that nothing but the way is measured.
func (b *bench) models() error {
	ctx := tenant.All(context.Background(), "measuring")
	dir := filepath.Join(b.dir, "models")
	db, err := store.Open(ctx, store.Config{URL: "sqlite", DataDir: dir})
	if err != nil {
		return err
	}
	defer db.Close()
	if err := modelHarness(ctx, db); err != nil {
		return err
	}
	provider, err := serve(http.HandlerFunc(modelAnswer))
	if err != nil {
		return err
	}
	defer provider.stop()
	meter := tokens.New(tokens.Config{Store: store.NewTokens(db)})
	if err := meter.Seed(ctx); err != nil {
		return err
	}
	client := egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Streams: true})
	defer client.CloseIdleConnections()
	g := gateway.New(gateway.Config{Store: store.NewGateway(db), Meter: meter, Client: client.Client, Check: client.Check, Key: make([]byte, vault.KeyBytes),
		Account: func(context.Context, gateway.Grant) (gateway.Account, error) {
			return gateway.Account{Provider: "anthropic", BaseURL: provider.url, Key: "sk-ant-bench"}, nil
		}})
	token, err := g.Mint(ctx, "ses_bench", "team_bench")
	if err != nil {
		return err
	}
	door, err := serve(g.Handler())
	if err != nil {
		return err
	}
	defer door.stop()
	body := `{"model":"claude-opus-4-8","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("x", modelBody) + `"}]}`

	n := b.size(300, 30)
	var direct, through, late, lateDirect []time.Duration
	agent := &http.Client{Transport: &http.Transport{}}
	defer agent.CloseIdleConnections()
	for i := range n + 10 { // the first ten make the connections
		for _, way := range []struct {
			url         string
			first, late *[]time.Duration
		}{{provider.url + "/v1/messages", &direct, &lateDirect}, {door.url + "/anthropic/v1/messages", &through, &late}} {
			first, pieces, err := askModel(ctx, agent, way.url, token, body)
			if err != nil {
				return err
			}
			if i >= 10 {
				*way.first = append(*way.first, first)
				*way.late = append(*way.late, pieces...)
			}
		}
	}
	for _, all := range [][]time.Duration{direct, through, late, lateDirect} {
		slices.Sort(all)
	}
	added := func(p int) float64 { return us(through[len(through)*p/100]-direct[len(direct)*p/100]) / 1e3 }
	for _, p := range []int{50, 95} {
		b.figure(fmt.Sprintf("gateway, added to the first byte, p%d, ms", p), f2(added(p)), f2(us(direct[len(direct)*p/100])/1e3), added(p)/2, "< 2 ms", added(p) < 2)
	}
	held := us(late[len(late)*95/100]-lateDirect[len(lateDirect)*95/100]) / 1e3
	b.figure("gateway, a piece of a stream later, p95, ms", f2(held), f2(us(modelPause)/1e3), held/(us(modelPause)/1e3), "< a pause", held < us(modelPause)/1e3)
	sums, err := meter.OfSessions(ctx, "ses_bench")
	if err != nil {
		return err
	}
	if want := int64(n + 10); sums["ses_bench"].Requests != want || sums["ses_bench"].Output != 7*want || sums["ses_bench"].Unknown != 0 {
		return fmt.Errorf("of %d answers the meter counted %+v", want, sums["ses_bench"])
	}
	return nil
}

// modelHarness is a session of a workspace of a team.
func modelHarness(ctx context.Context, db *store.DB) error {
	for _, q := range []string{
		`INSERT INTO users (id, email, name, password_hash, created_at) VALUES ('usr_bench', 'b@example.com', 'b', '!', 1)`,
		`/* every team: a new one */ INSERT INTO teams (id, slug, name, created_at) VALUES ('team_bench', 'bench', 'Bench', 1)`,
		`/* every team: a new one's */ INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by, created_at) VALUES ('prj_bench', 'team_bench', 'p', 'sample', '', '', 'ready', 'usr_bench', 1)`,
		`/* every team: a new one's */ INSERT INTO workspaces (id, team_id, project_id, num, name, branch, base, executor, state, created_by, created_at, updated_at)
			VALUES ('ws_bench', 'team_bench', 'prj_bench', 1, 'w', 'b', 'main', 'local', 'ready', 'usr_bench', 1, 1)`,
		`/* every team: a new one's */ INSERT INTO sessions (id, team_id, workspace_id, agent, state, state_at, cols, rows, created_by, started_at)
			VALUES ('ses_bench', 'team_bench', 'ws_bench', 'claude-code', 'working', 1, 80, 24, 'usr_bench', 1)`,
	} {
		if _, err := db.Exec(ctx, q); err != nil {
			return fmt.Errorf("making a session: %w", err)
		}
	}
	return nil
}

// modelAnswer streams an answer of the Messages API; each piece says when it was sent.
func modelAnswer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	send := func(data string) {
		fmt.Fprintf(w, "data: %s\n\n", data)
		_ = out.Flush()
	}
	send(`{"type":"message_start","message":{"id":"` + id.New("msg") + `","model":"claude-opus-4-8","usage":{"input_tokens":100,"output_tokens":1}}}`)
	for range modelPieces {
		time.Sleep(modelPause)
		send(fmt.Sprintf(`{"type":"content_block_delta","at":%d}`, time.Now().UnixNano()))
	}
	send(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}`)
	send(`{"type":"message_stop"}`)
}

// askModel asks once: how long until the first byte, and how late each piece was after it was sent.
func askModel(ctx context.Context, client *http.Client, url, token, body string) (first time.Duration, late []time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return 0, nil, fmt.Errorf("asking a model: %s %s", resp.Status, text)
	}
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadString('\n')
		if first == 0 && line != "" {
			first = time.Since(began)
		}
		if _, at, ok := strings.Cut(line, `"at":`); ok {
			var sent int64
			if _, err := fmt.Sscanf(at, "%d", &sent); err == nil {
				late = append(late, time.Duration(time.Now().UnixNano()-sent))
			}
		}
		if err != nil {
			if err == io.EOF {
				return first, late, nil
			}
			return 0, nil, err
		}
	}
}

// served is an HTTP server on a free port of loopback.
type served struct {
	url  string
	stop func()
}

func serve(h http.Handler) (served, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return served{}, err
	}
	s := &http.Server{Handler: h}
	var work sync.WaitGroup
	work.Go(func() { _ = s.Serve(l) })
	return served{"http://" + l.Addr().String(), func() { _ = s.Close(); work.Wait() }}, nil
}
