package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/result"
)

const tailOfEnd = 500 // lines of a terminal that stand for an answer

// output is what the agent of a job has to say: the last message of its own record, otherwise the end of its terminal.
func (s *Service) output(ctx context.Context, j Job) string {
	text := ""
	if j.Request.Agent != agents.Command {
		text, _ = result.Answer(ctx, s.cfg.Sessions, j.SessionID)
	}
	if text == "" {
		shown, tail, err := s.cfg.Terminals.Screen(ctx, j.SessionID, tailOfEnd)
		if err != nil {
			return ""
		}
		if len(tail) == 0 {
			tail = shown.Lines
		}
		text = strings.TrimSpace(strings.Join(tail, "\n"))
	}
	return result.Bounded(s.masked(ctx, j.TeamID, text), MaxOutput)
}

// ContentURL is where the content of an artifact is read.
func (s *Service) ContentURL(a Artifact) string {
	return strings.TrimRight(s.cfg.PublicURL, "/") + "/api/v1/artifacts/" + a.ID + "/content"
}

// Report is what a webhook is sent. It is a public contract: docs/jobs.md.
type Report struct {
	Type string      `json:"type"` // job.completed, job.failed, job.timeout or job.cancelled
	At   int64       `json:"at"`
	Job  ReportedJob `json:"job"`
}

// ReportedJob is a job that has ended, in a Report.
type ReportedJob struct {
	ID          string             `json:"id"`
	Status      Status             `json:"status"`
	Agent       string             `json:"agent"`
	Output      string             `json:"output"`
	Code        string             `json:"code"`
	Error       string             `json:"error"`
	Artifacts   []ReportedArtifact `json:"artifacts"`
	Warnings    []string           `json:"warnings"`
	ProjectID   string             `json:"project_id"`
	SandboxID   string             `json:"sandbox_id"`
	WorkspaceID string             `json:"workspace_id"`
	SessionID   string             `json:"session_id"`
	CostNano    *int64             `json:"cost_nano"`
	CreatedAt   int64              `json:"created_at"`
	StartedAt   int64              `json:"started_at"`
	EndedAt     int64              `json:"ended_at"`
}

// ReportedArtifact is an artifact with where its content is read.
type ReportedArtifact struct {
	Artifact
	URL string `json:"url"`
}

func (s *Service) report(j Job) (string, error) {
	r := Report{Type: "job." + string(j.Status), At: s.now(), Job: ReportedJob{ID: j.ID, Status: j.Status, Agent: j.Request.Agent, Output: j.Output, Code: j.Code, Error: j.Error, Artifacts: []ReportedArtifact{},
		Warnings: append([]string{}, j.Warnings...), ProjectID: j.Request.ProjectID, SandboxID: j.SandboxID, WorkspaceID: j.WorkspaceID, SessionID: j.SessionID, CostNano: j.CostNano, CreatedAt: j.CreatedAt,
		StartedAt: j.StartedAt, EndedAt: j.EndedAt}}
	for _, a := range j.Files {
		r.Job.Artifacts = append(r.Job.Artifacts, ReportedArtifact{a, s.ContentURL(a)})
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("writing the report of a job: %w", err)
	}
	return string(raw), nil
}
