// Package images is what containers of a project are made from: an image by its name, or one built from the project's own Dockerfile or
// devcontainer.json. What is built is read from a commit of the repository, never from a folder an agent can write to. One build
// runs at a time for each project; its output is streamed while it runs and its end is kept.
//
// Goroutines: one for each build under way. Run waits for them, and ends them with its context.
package images

import (
	"context"
	"io"

	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/page"
)

// Choice is what a project says about its image: a name, or the file in the repository it is built from. Neither: the server's own.
type Choice struct {
	Name  string `json:"name,omitempty"`
	Build string `json:"build,omitempty"`
	// Public is the id of the image that Name meant when it was chosen and its registry gave it to everybody.
	Public string `json:"public,omitempty"`
}

// Image is what the engine knows of one image.
type Image struct {
	ID       string
	Project  string   // whom it was built for, by its label; "" = nobody
	Tags     []string // its names
	Digests  []string // what registries know it by, of the repository it was asked by: repository@sha256:...
	Triggers []string // what runs in an image that is built upon it (ONBUILD)
}

// Made is what a container is made from.
type Made struct {
	Name, ID  string
	ProjectID string // whose workspace it is for
}

// State of a build.
type State string

// States of a build, as in the API.
const (
	Building  State = "building"
	Ready     State = "ready"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Build is one making of a project's image.
type Build struct {
	ID, TeamID, ProjectID string
	Source                string // the file in the repository
	Commit                string
	Tag                   string // of the image, once it is built
	State                 State
	Reason                string
	CreatedBy             string
	CreatedAt             int64 // ms UTC
	EndedAt               int64 // ms UTC; 0 = not yet
}

// Kinds of candidates.
const (
	Dockerfile   = "dockerfile"
	Devcontainer = "devcontainer"
)

// Candidate is a file an image can be built from.
type Candidate struct {
	Path string
	Kind string
}

// Overview is all there is to know of a project's image.
type Overview struct {
	Choice     Choice
	Image      string // what containers are made from now; "" = what was chosen is not built yet
	Candidates []Candidate
	Builds     []Build // the newest first
	Problem    string  // why the repository could not be looked at, "" when it could
}

// Store is what the Service needs of the storage.
type Store interface {
	ChoiceStore
	BuildStore
}

// ChoiceStore keeps what projects say about their images.
type ChoiceStore interface {
	// ImageChoice returns what a project says about its image.
	ImageChoice(ctx context.Context, projectID string) (Choice, error)
	SetImageChoice(ctx context.Context, projectID string, c Choice) error
	// ChoiceOfWorkspace returns what the project of a workspace says, and its id.
	ChoiceOfWorkspace(ctx context.Context, workspaceID string) (projectID string, c Choice, err error)
}

// BuildStore keeps builds.
type BuildStore interface {
	// InsertImageBuild stores a new build. A project has one build under way: a second is a fault.Conflict.
	InsertImageBuild(ctx context.Context, b Build) error
	// EndImageBuild stores the end of a build and the end of what it printed.
	EndImageBuild(ctx context.Context, b Build, log string) error
	ImageBuild(ctx context.Context, id string) (Build, error)
	ImageBuildLog(ctx context.Context, id string) (string, error)
	// ImageBuilds returns a page of a project's builds, newest first.
	ImageBuilds(ctx context.Context, projectID string, pg page.Page) ([]Build, string, error)
	// ReadyImageBuilds returns the builds of a project that are ready, newest first.
	ReadyImageBuilds(ctx context.Context, projectID string) ([]Build, error)
	// OpenImageBuilds returns every build that has not ended.
	OpenImageBuilds(ctx context.Context) ([]Build, error)
}

// Repositories reads commits of projects.
type Repositories interface {
	DefaultCommit(ctx context.Context, projectID string) (string, error)
	CommitFiles(ctx context.Context, projectID, commit, dir string) ([]hostgit.TreeFile, error)
	CommitBlobs(ctx context.Context, projectID string, files []hostgit.TreeFile, fn func(hostgit.TreeFile, io.Reader) error) error
}

// Order asks a Builder for an image.
type Order struct {
	Tag        string
	Dockerfile string // its name in the context
	Target     string // stage; "" = the last
	Args       map[string]string
	ProjectID  string
	TeamID     string
	BuildID    string
	NoCache    bool
	Context    io.Reader // a tar archive
}

// Builder is the engine: it finds, fetches and makes images.
type Builder interface {
	// Image finds the image that has exactly this name, never one whose id begins like it. None is a fault "image_missing".
	Image(ctx context.Context, name string) (Image, error)
	// Public asks the registry of repository@digest, without an account, whether it gives that image to everybody.
	Public(ctx context.Context, digest string) (bool, error)
	// Pull fetches an image without an account.
	Pull(ctx context.Context, name string, log io.Writer) error
	// Build makes an image and writes what the making prints to log.
	Build(ctx context.Context, o Order, log io.Writer) error
	// Remove removes an image by its tag; one that is not there, or is in use, is no error.
	Remove(ctx context.Context, tag string) error
}
