package tooling

import (
	"cmp"
	"context"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools/artifacts"
	"github.com/parawork/parawork/workspaces"
)

// ByArtifact finds an artifact, which is as private as its workspace, also when that is gone.
func (h Artifacts) ByArtifact(ctx context.Context, call *rest.Call, id string) (accounts.Object, error) {
	a, err := h.cfg.Artifacts.Get(ctx, id)
	if err != nil {
		return accounts.Object{}, err
	}
	return h.ObjectOf(ctx, call.Actor, workspaces.Workspace{TeamID: a.TeamID, CreatedBy: a.OwnerID, Private: a.Private})
}

// ByArtifactLink finds a link by its artifact.
func (h Artifacts) ByArtifactLink(ctx context.Context, call *rest.Call, id string) (accounts.Object, error) {
	l, err := h.cfg.Artifacts.Link(ctx, id)
	if err != nil {
		return accounts.Object{}, err
	}
	return h.ByArtifact(ctx, call, l.ArtifactID)
}

func (h Artifacts) ListArtifacts(ctx context.Context, req api.ListArtifactsRequestObject) (api.ListArtifactsResponseObject, error) {
	list, err := h.list(ctx, artifacts.Filter{WorkspaceID: req.Id, Name: rest.Val(req.Params.Name)}, req.Params.Limit, req.Params.Cursor)
	return api.ListArtifacts200JSONResponse(list), err
}

func (h Artifacts) ListProjectArtifacts(ctx context.Context, req api.ListProjectArtifactsRequestObject) (api.ListProjectArtifactsResponseObject, error) {
	f := artifacts.Filter{ProjectID: req.Id, Name: rest.Val(req.Params.Name), SeenBy: rest.CallOf(ctx).Actor.User.ID}
	list, err := h.list(ctx, f, req.Params.Limit, req.Params.Cursor)
	return api.ListProjectArtifacts200JSONResponse(list), err
}

func (h Artifacts) list(ctx context.Context, f artifacts.Filter, limit *int, cursor *string) (api.ArtifactList, error) {
	items, next, err := h.cfg.Artifacts.List(ctx, f, rest.PageOf(limit, cursor))
	if err != nil {
		return api.ArtifactList{}, err
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, rest.CallOf(ctx).Team.ID)
	if err != nil {
		return api.ArtifactList{}, err
	}
	return api.ArtifactList{Items: rest.List(items, func(a artifacts.Artifact) api.Artifact { return artifactOf(a, names) }), NextCursor: rest.Text(next)}, nil
}

func artifactOf(a artifacts.Artifact, names map[string]string) api.Artifact {
	return api.Artifact{Id: a.ID, ProjectId: a.ProjectID, WorkspaceId: a.WorkspaceID, SessionId: rest.Text(a.SessionID), Name: a.Name, Version: a.Version, Versions: a.Versions, Mime: a.MIME, Size: a.Size,
		Sha256: a.SHA256, Metadata: a.Metadata, CreatedBy: makerOf(a.CreatedBy, names), CreatedAt: a.CreatedAt}
}

func makerOf(userID string, names map[string]string) api.Maker {
	return api.Maker{Id: userID, Name: cmp.Or(names[userID], "a former member")}
}

// one answers with an artifact.
func (h Artifacts) one(ctx context.Context, a artifacts.Artifact) (api.Artifact, error) {
	names, err := rest.MemberNames(ctx, h.cfg.Directory, a.TeamID)
	return artifactOf(a, names), err
}

func (h Artifacts) CreateArtifact(ctx context.Context, req api.CreateArtifactRequestObject) (api.CreateArtifactResponseObject, error) {
	call := rest.CallOf(ctx)
	m := artifacts.Maker{TeamID: call.Object.TeamID, WorkspaceID: req.Id, UserID: call.Actor.User.ID}
	a, err := h.cfg.Artifacts.Upload(ctx, m, artifacts.SaveRequest{Name: req.Params.Name, MIME: rest.Val(req.Params.Mime)}, req.Body, call.Request.ContentLength, rest.Val(req.Params.XContentSha256))
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "artifact", a.ID, a.Name)
	v, err := h.one(ctx, a)
	return api.CreateArtifact201JSONResponse(v), err
}

func (h Artifacts) GetArtifact(ctx context.Context, req api.GetArtifactRequestObject) (api.GetArtifactResponseObject, error) {
	a, err := h.cfg.Artifacts.Get(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	v, err := h.one(ctx, a)
	return api.GetArtifact200JSONResponse(v), err
}

func (h Artifacts) DeleteArtifact(ctx context.Context, req api.DeleteArtifactRequestObject) (api.DeleteArtifactResponseObject, error) {
	a, err := h.cfg.Artifacts.Get(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "artifact", a.ID, a.Name)
	return api.DeleteArtifact204Response{}, h.cfg.Artifacts.Delete(ctx, a)
}

func (h Artifacts) GetArtifactContent(ctx context.Context, req api.GetArtifactContentRequestObject) (api.GetArtifactContentResponseObject, error) {
	a, err := h.cfg.Artifacts.Get(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	if as, _ := previewOf(a.MIME); h.cfg.Content != nil && rest.Val(req.Params.Preview) && (as == pageType || as == pdfType) {
		return elsewhere(h.cfg.Content.Address(a.ID)), nil
	}
	return h.content(ctx, a, rest.Val(req.Params.Preview))
}

// elsewhere sends the browser to the origin of contents.
type elsewhere string

// VisitGetArtifactContentResponse writes the answer.
func (e elsewhere) VisitGetArtifactContentResponse(w http.ResponseWriter) error {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", string(e))
	w.WriteHeader(http.StatusFound)
	return nil
}

// ServeContent shows an artifact on the origin of contents. Its address was signed for somebody who may read it.
func (h Artifacts) ServeContent(w http.ResponseWriter, r *http.Request, id string) {
	a, err := h.cfg.Artifacts.Get(tenant.All(r.Context(), "the address of a content names no team"), id)
	var body io.ReadSeekCloser
	if err == nil {
		body, err = h.cfg.Artifacts.Open(tenant.In(r.Context(), a.TeamID), a)
	}
	if err != nil {
		http.Error(w, "This artifact cannot be shown now. It may have been deleted.", http.StatusNotFound)
		return
	}
	c := contentAnswer{a, body, true, r, strings.TrimSuffix(h.cfg.PublicURL, "/")}
	_ = c.visit(w) // the browser has gone
}

func (h Artifacts) content(ctx context.Context, a artifacts.Artifact, preview bool) (contentAnswer, error) {
	body, err := h.cfg.Artifacts.Open(ctx, a)
	return contentAnswer{a, body, preview, rest.CallOf(ctx).Request, ""}, err
}

func (h Artifacts) ListArtifactLinks(ctx context.Context, req api.ListArtifactLinksRequestObject) (api.ListArtifactLinksResponseObject, error) {
	links, err := h.cfg.Artifacts.Links(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, rest.CallOf(ctx).Team.ID)
	return api.ListArtifactLinks200JSONResponse{Items: rest.List(links, func(l artifacts.Link) api.ArtifactLink { return artifactLinkOf(l, names) })}, err
}

func artifactLinkOf(l artifacts.Link, names map[string]string) api.ArtifactLink {
	return api.ArtifactLink{Id: l.ID, ArtifactId: l.ArtifactID, Name: l.Name, CreatedBy: makerOf(l.CreatedBy, names), CreatedAt: l.CreatedAt, ExpiresAt: l.ExpiresAt, LastUsedAt: rest.Ptr(l.LastUsedAt), Uses: l.Uses}
}

func (h Artifacts) CreateArtifactLink(ctx context.Context, req api.CreateArtifactLinkRequestObject) (api.CreateArtifactLinkResponseObject, error) {
	call := rest.CallOf(ctx)
	a, err := h.cfg.Artifacts.Get(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	l, token, err := h.cfg.Artifacts.CreateLink(ctx, call.Actor, a, rest.Val(req.Body.Name), rest.Val(req.Body.Minutes))
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "artifact_link", l.ID, l.Name)
	audit.Note(ctx, "artifact_id", a.ID)
	audit.Note(ctx, "expires_at", time.UnixMilli(l.ExpiresAt).UTC().Format(time.RFC3339))
	v := artifactLinkOf(l, map[string]string{call.Actor.User.ID: call.Actor.User.Name})
	return api.CreateArtifactLink201JSONResponse{Id: v.Id, ArtifactId: v.ArtifactId, Name: v.Name, CreatedBy: v.CreatedBy, CreatedAt: v.CreatedAt, ExpiresAt: v.ExpiresAt, Uses: v.Uses,
		Url: h.Here(call.Request) + rest.Base + "/shared-artifacts/" + token}, nil
}

func (h Artifacts) RevokeArtifactLink(ctx context.Context, req api.RevokeArtifactLinkRequestObject) (api.RevokeArtifactLinkResponseObject, error) {
	l, err := h.cfg.Artifacts.Link(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "artifact_link", l.ID, l.Name)
	return api.RevokeArtifactLink204Response{}, h.cfg.Artifacts.RevokeLink(ctx, rest.CallOf(ctx).Actor, l)
}

// GetSharedArtifact sends the artifact behind a link, always as a download.
func (h Artifacts) GetSharedArtifact(ctx context.Context, req api.GetSharedArtifactRequestObject) (api.GetSharedArtifactResponseObject, error) {
	a, _, err := h.cfg.Artifacts.Shared(ctx, req.Token)
	if err != nil {
		return nil, err
	}
	return h.content(tenant.In(ctx, a.TeamID), a, false)
}

// contentAnswer sends an artifact's content, or the part of it that was asked for.
type contentAnswer struct {
	a       artifacts.Artifact
	body    io.ReadSeekCloser
	preview bool
	request *http.Request
	parent  string // whose pages may frame it; "" = this origin's
}

// VisitGetArtifactContentResponse writes the answer of GetArtifactContent.
func (c contentAnswer) VisitGetArtifactContentResponse(w http.ResponseWriter) error {
	return c.visit(w)
}

// VisitGetSharedArtifactResponse writes the answer of GetSharedArtifact.
func (c contentAnswer) VisitGetSharedArtifactResponse(w http.ResponseWriter) error { return c.visit(w) }

// Content-Security-Policies of previews. A page an agent wrote gets no origin and reaches nothing; it may run its own scripts.
const (
	pagePolicy  = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; media-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
	plainPolicy = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
	pdfPolicy   = "base-uri 'none'; form-action 'none'; frame-ancestors 'self'" // browsers show no PDF in a sandbox, and give it no origin
)

const (
	pageType = "text/html; charset=utf-8"
	pdfType  = "application/pdf"
)

// previewOf returns as what a content is shown, and with which policy; "" = it is only downloaded.
func previewOf(mimeType string) (shownAs, policy string) {
	t, _, _ := mime.ParseMediaType(mimeType)
	switch {
	case t == "text/html":
		return pageType, pagePolicy
	case t == pdfType:
		return t, pdfPolicy
	case t == "image/svg+xml", t == "image/png", t == "image/jpeg", t == "image/gif", t == "image/webp", t == "image/avif", strings.HasPrefix(t, "video/"), strings.HasPrefix(t, "audio/"):
		return t, plainPolicy
	case artifacts.IsText(t):
		return "text/plain; charset=utf-8", plainPolicy
	}
	return "", ""
}

func (c contentAnswer) visit(w http.ResponseWriter) error {
	defer c.body.Close()
	h := w.Header()
	h.Set("ETag", `"`+c.a.SHA256+`"`)
	h.Set("Cache-Control", "private, no-cache")
	disposition, shownAs := "attachment", "application/octet-stream"
	if as, policy := previewOf(c.a.MIME); c.preview && as != "" {
		disposition, shownAs = "inline", as
		if c.parent != "" {
			policy = strings.ReplaceAll(policy, "frame-ancestors 'self'", "frame-ancestors "+c.parent)
		}
		h.Set("Content-Security-Policy", policy)
		h.Del("X-Frame-Options") // the policy says who may frame it
	} else if as != "" && as != pageType {
		shownAs = as
	}
	h.Set("Content-Type", shownAs)
	h.Set("Content-Disposition", cmp.Or(mime.FormatMediaType(disposition, map[string]string{"filename": fileName(c.a.Name)}), disposition))
	http.ServeContent(&patientWriter{w, http.NewResponseController(w)}, c.request, "", time.UnixMilli(c.a.CreatedAt), c.body)
	return nil
}

// fileName is the last part of a name, without what a header cannot carry.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\\' || r == '"' {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(path.Base(name), "_"))
}

// patientWriter gives a slow client time for each piece.
type patientWriter struct {
	http.ResponseWriter
	rc *http.ResponseController
}

func (p *patientWriter) Write(b []byte) (int, error) {
	_ = p.rc.SetWriteDeadline(time.Now().Add(rest.StreamPatience))
	return p.ResponseWriter.Write(b)
}
