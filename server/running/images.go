package running

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/parawork/parawork/executors/images"
	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

func imageBuildOf(b images.Build) api.ImageBuild {
	return api.ImageBuild{Id: b.ID, ProjectId: b.ProjectID, Source: b.Source, Commit: b.Commit, Tag: rest.Text(b.Tag), State: api.ImageBuildState(b.State),
		StateReason: b.Reason, CreatedBy: b.CreatedBy, CreatedAt: b.CreatedAt, EndedAt: rest.Ptr(b.EndedAt)}
}

func (h Images) GetProjectImage(ctx context.Context, req api.GetProjectImageRequestObject) (api.GetProjectImageResponseObject, error) {
	o, err := h.cfg.Images.Overview(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	choice := api.ImageChoice{Name: rest.Text(o.Choice.Name), Build: rest.Text(o.Choice.Build)}
	if len(o.Choice.Parts) > 0 {
		choice.Parts = &o.Choice.Parts
	}
	source := api.ImageFromServer
	current := rest.Text(o.Image)
	switch {
	case o.Choice.Name != "":
		source = api.ImageFromName
	case o.Choice.Build != "":
		source = api.ImageFromBuild
	default:
		current = rest.Text(h.cfg.Image)
	}
	return api.GetProjectImage200JSONResponse{Image: choice, Source: source,
		Parts: rest.List(recipe.Sets(), func(s recipe.Set) api.ImagePart {
			return api.ImagePart{Name: s.Name, Title: s.Title, SizeMb: s.SizeMB}
		}),
		Current: current, Builds: rest.List(o.Builds, imageBuildOf), Problem: o.Problem,
		Candidates: rest.List(o.Candidates, func(c images.Candidate) api.ImageCandidate {
			return api.ImageCandidate{Path: c.Path, Kind: api.ImageCandidateKind(c.Kind)}
		})}, nil
}

func (h Images) ListImageBuilds(ctx context.Context, req api.ListImageBuildsRequestObject) (api.ListImageBuildsResponseObject, error) {
	items, next, err := h.cfg.Images.List(ctx, req.Id, rest.PageOf(req.Params.Limit, req.Params.Cursor))
	if err != nil {
		return nil, err
	}
	return api.ListImageBuilds200JSONResponse{Items: rest.List(items, imageBuildOf), NextCursor: rest.Text(next)}, nil
}

func (h Images) BuildImage(ctx context.Context, req api.BuildImageRequestObject) (api.BuildImageResponseObject, error) {
	call := rest.CallOf(ctx)
	b, err := h.cfg.Images.Start(ctx, call.Team.ID, req.Id, call.Actor.User.ID, rest.Val(req.Body.Source))
	if err != nil {
		return nil, err
	}
	return api.BuildImage201JSONResponse(imageBuildOf(b)), nil
}

func (h Images) GetImageBuild(ctx context.Context, req api.GetImageBuildRequestObject) (api.GetImageBuildResponseObject, error) {
	b, err := h.cfg.Images.Get(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	return api.GetImageBuild200JSONResponse(imageBuildOf(b)), nil
}

func (h Images) CancelImageBuild(ctx context.Context, req api.CancelImageBuildRequestObject) (api.CancelImageBuildResponseObject, error) {
	b, err := h.cfg.Images.Cancel(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	return api.CancelImageBuild200JSONResponse(imageBuildOf(b)), nil
}

// buildLog streams what a build prints.
type buildLog struct {
	h   Images
	ctx context.Context
	id  string
}

func (h Images) GetImageBuildLog(ctx context.Context, req api.GetImageBuildLogRequestObject) (api.GetImageBuildLogResponseObject, error) {
	return buildLog{h, ctx, req.Id}, nil
}

// VisitGetImageBuildLogResponse writes each line as an event, and the build when it has ended.
func (b buildLog) VisitGetImageBuildLogResponse(w http.ResponseWriter) error {
	ctx, cancel := context.WithCancelCause(b.ctx)
	defer cancel(nil)
	out := &eventStream{w: w, rc: http.NewResponseController(w), failed: cancel}
	if err := out.begin(); err != nil {
		return nil // nobody is there
	}
	stop := out.beat(ctx)
	err := b.h.cfg.Images.Follow(ctx, b.id, out.line)
	stop()
	if err != nil {
		b.h.Log.Debug("the log stream of a build was interrupted", "build_id", b.id, "error", err)
		return nil
	}
	build, err := b.h.cfg.Images.Get(ctx, b.id)
	if err != nil {
		return nil
	}
	raw, err := json.Marshal(imageBuildOf(build))
	if err != nil {
		return err
	}
	return out.raw(fmt.Appendf(nil, "event: end\ndata: %s\n\n", raw))
}

// begin begins the answer before there is anything to say.
func (s *eventStream) begin() error { return s.raw([]byte(": \n\n")) }

// line writes one line of text as an event.
func (s *eventStream) line(line string) error {
	return s.raw([]byte("data: " + strings.NewReplacer("\r", "", "\n", "").Replace(line) + "\n\n"))
}

// raw writes what is an event already; the first begins the answer.
func (s *eventStream) raw(p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		s.open = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("X-Accel-Buffering", "no") // nginx would hold events back
		s.w.WriteHeader(http.StatusOK)
	}
	return s.write(p)
}
