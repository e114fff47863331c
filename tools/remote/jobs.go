package remote

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
)

// Jobs asks for work and waits for it.
type Jobs struct{ a *API }

// Jobs returns the operations on jobs.
func (a *API) Jobs() Jobs { return Jobs{a} }

// Job is a job as the API shows it.
type Job struct {
	ID, Status, Agent, Prompt, Output, Code, Error, Reason string
	Warnings                                               []string
	Artifacts                                              []struct {
		ID, Name string
		Size     int64
	}
	CreatedAt int64 `json:"created_at"`
}

// Create asks for a job. A request that is repeated with its key is answered with the first job.
func (j Jobs) Create(ctx context.Context, ask map[string]any, key string) (json.RawMessage, error) {
	team, err := j.a.team(ctx, "")
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	header := map[string]string{"Content-Type": "application/json"}
	if key != "" {
		header["Idempotency-Key"] = key
	}
	resp, err := j.a.open(ctx, http.MethodPost, j.a.cfg.Server+path("teams", team, "jobs"), strings.NewReader(string(raw)), header)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return whole(resp.Body, maxAnswer)
}

// Project returns the ID of a project of the team that is named by its ID or its name.
func (j Jobs) Project(ctx context.Context, name string) (string, error) {
	team, err := j.a.team(ctx, "")
	if err != nil {
		return "", err
	}
	return j.a.projectID(ctx, team, name)
}

// List returns the newest jobs of the team, at most limit; of one status unless that is "".
func (j Jobs) List(ctx context.Context, status string, limit int) (json.RawMessage, error) {
	team, err := j.a.team(ctx, "")
	if err != nil {
		return nil, err
	}
	q := paged(limit, "")
	if status != "" {
		q.Set("status", status)
	}
	return j.a.send(ctx, http.MethodGet, path("teams", team, "jobs"), q, nil, maxAnswer)
}

// Get returns a job.
func (j Jobs) Get(ctx context.Context, id string) (json.RawMessage, error) {
	return j.a.send(ctx, http.MethodGet, path("jobs", id), nil, nil, maxAnswer)
}

// Cancel cancels a job.
func (j Jobs) Cancel(ctx context.Context, id string) (json.RawMessage, error) {
	return j.a.send(ctx, http.MethodPost, path("jobs", id, "cancel"), nil, nil, maxAnswer)
}

// Delete deletes a job with its artifacts.
func (j Jobs) Delete(ctx context.Context, id string) error {
	_, err := j.a.send(ctx, http.MethodDelete, path("jobs", id), nil, nil, maxAnswer)
	return err
}

// A server that is away is asked again so often, with so much time between.
const (
	askAgain = 60
	askEvery = 2 * time.Second
)

// Follow calls onEvent with what happens to a job until it has ended, and returns it. It connects again when the connection ends.
func (j Jobs) Follow(ctx context.Context, id string, onEvent func(name string, data json.RawMessage) error) (json.RawMessage, error) {
	last := ""
	for failed := 0; ; {
		header := map[string]string{"Accept": "text/event-stream"}
		if last != "" {
			header["Last-Event-ID"] = last
		}
		resp, err := j.a.open(ctx, http.MethodGet, j.a.cfg.Server+path("jobs", id, "events"), nil, header)
		if err == nil {
			var end json.RawMessage
			end, err = identified(resp.Body, "end", func(id, name string, data json.RawMessage) error {
				failed, last = 0, id
				return onEvent(name, data)
			})
			_ = resp.Body.Close()
			if err == nil {
				return end, nil
			}
		}
		if failed++; !fault.Is(err, fault.Unavailable) || failed > askAgain || !tasks.Sleep(ctx, askEvery) {
			return nil, err
		}
	}
}

// Artifact writes the content of an artifact to w.
func (j Jobs) Artifact(ctx context.Context, id string, w io.Writer) error {
	resp, err := j.a.open(ctx, http.MethodGet, j.a.cfg.Server+path("artifacts", id, "content"), nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return cutOff(err)
	}
	return nil
}
