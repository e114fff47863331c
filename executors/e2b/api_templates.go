package e2b

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/executors/sandboxdir"
)

// Template is one a key may use.
type Template struct {
	ID       string    `json:"templateID"`
	Names    []string  `json:"names"`
	Aliases  []string  `json:"aliases"`
	CPUs     int       `json:"cpuCount"`
	MemoryMB int64     `json:"memoryMB"`
	Envd     string    `json:"envdVersion"`
	State    string    `json:"buildStatus"`
	Updated  time.Time `json:"updatedAt"`
}

// Name is how people call it.
func (t Template) Name() string {
	for _, names := range [][]string{t.Aliases, t.Names} {
		if len(names) > 0 {
			return line(names[0], 128)
		}
	}
	return line(t.ID, 64)
}

// known reports whether there is a template of that name for us.
func (p *plane) known(ctx context.Context, name string) (bool, error) {
	if p.set.Debug {
		return true, nil
	}
	alias, _, _ := strings.Cut(name, ":")
	_, _, err := p.do(ctx, ask{method: http.MethodGet, path: "/templates/aliases/" + url.PathEscape(alias), again: true})
	switch {
	case unknownCall(err): // a server that does not tell: it will say so when a sandbox is made
		return true, nil
	case isStatus(err, http.StatusNotFound, http.StatusForbidden):
		return false, nil
	}
	return err == nil, err
}

// templates lists those of the key's team.
func (p *plane) templates(ctx context.Context) ([]Template, error) {
	var out []Template
	_, _, err := p.do(ctx, ask{method: http.MethodGet, path: "/v2/templates", out: &out, again: true})
	if unknownCall(err) {
		_, _, err = p.do(ctx, ask{method: http.MethodGet, path: "/templates", out: &out, again: true})
	}
	return out, err
}

// build is one making of a template.
type build struct {
	TemplateID string `json:"templateID"`
	BuildID    string `json:"buildID"`
}

// step is one step of a build.
type step struct {
	Type  string   `json:"type"` // RUN [command, user], COPY [from, to, user, mode], ENV, WORKDIR, USER
	Args  []string `json:"args"`
	Hash  string   `json:"filesHash,omitempty"`
	Force bool     `json:"force,omitempty"`
}

// begin names a template and its size. A name that is there already gets another build.
func (p *plane) begin(ctx context.Context, name string, cpus int, memoryMB int64) (build, error) {
	var b build
	in := struct {
		Name     string `json:"name"`
		CPUs     int    `json:"cpuCount"`
		MemoryMB int64  `json:"memoryMB"`
	}{name, cpus, memoryMB}
	_, _, err := p.do(ctx, ask{method: http.MethodPost, path: "/v3/templates", in: in, out: &b})
	if err == nil && (!sandboxdir.Plain(b.TemplateID) || !sandboxdir.Plain(b.BuildID)) {
		err = fmt.Errorf("E2B named the build %q of the template %q, which are no names", line(b.BuildID, 80), line(b.TemplateID, 80))
	}
	return b, err
}

// give uploads an archive (tar.gz) that a COPY step takes files from, unless it is there.
func (p *plane) give(ctx context.Context, b build, hash string, size int64, archive io.Reader) error {
	var a struct {
		Present bool   `json:"present"`
		URL     string `json:"url"`
	}
	if _, _, err := p.do(ctx, ask{method: http.MethodGet, path: "/templates/" + b.TemplateID + "/files/" + hash, out: &a, again: true}); err != nil {
		return err
	}
	if a.Present {
		return nil
	}
	u, err := url.Parse(a.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return fmt.Errorf("E2B named no address to upload to")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, uploadWithin, errSlow)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, a.URL, archive)
	if err != nil {
		return err
	}
	req.ContentLength = size // the storage behind it takes no chunks
	resp, err := p.http.Do(req)
	if err != nil {
		return fmt.Errorf("uploading to E2B: %w", lost(ctx, err))
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("uploading to E2B: it answered %s", resp.Status)
	}
	return nil
}

// order begins the build.
func (p *plane) order(ctx context.Context, b build, from string, steps []step, force bool) error {
	in := struct {
		From  string `json:"fromImage"`
		Steps []step `json:"steps"`
		Force bool   `json:"force"`
		Start string `json:"startCmd"`
		Ready string `json:"readyCmd"`
	}{from, steps, force, "", ""}
	_, _, err := p.do(ctx, ask{method: http.MethodPost, path: "/v2/templates/" + b.TemplateID + "/builds/" + b.BuildID, in: in})
	return err
}

// progress is how far a build is.
type progress struct {
	State string `json:"status"` // waiting, building, ready, error
	Logs  []struct {
		Level   string `json:"level"`
		Message string `json:"message"`
		Step    string `json:"step"`
	} `json:"logEntries"`
	Reason struct {
		Message string `json:"message"`
		Step    string `json:"step"`
	} `json:"reason"`
}

// look asks how far a build is, and for its log from a line on.
func (p *plane) look(ctx context.Context, b build, from int) (progress, error) {
	var out progress
	_, _, err := p.do(ctx, ask{method: http.MethodGet, path: "/templates/" + b.TemplateID + "/builds/" + b.BuildID + "/status",
		query: url.Values{"logsOffset": {strconv.Itoa(from)}}, out: &out, again: true})
	return out, err
}
