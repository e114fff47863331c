// Package images manages the images of a project's containers: an image by its name, or one built from the project's own Dockerfile or
// devcontainer.json. A build reads its files from a commit of the repository, never from a folder an agent can write to. Each project has
// one
// build at a time; its output is streamed while it runs, and the end of the output is stored.
//
// Goroutines: one for each build under way. Run waits for them, and cancels them when its context ends.
package images

import (
	"context"
	"io"

	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/page"
)

// Choice is a project's choice of image: a name, or the file in the repository it is built from. Neither: the server's own.
type Choice struct {
	Name  string `json:"name,omitempty"`
	Build string `json:"build,omitempty"`
	// Parts are sets of the recipe that are installed in the image that is built.
	Parts []string `json:"parts,omitempty"`
	// Public is the id of the image that Name meant when it was chosen and its registry gave it to everybody.
	Public string `json:"public,omitempty"`
}

// none says that a project chooses nothing.
func (c Choice) none() bool { return c.Name == "" && c.Build == "" && len(c.Parts) == 0 }

// Image is the engine's information about one image.
type Image struct {
	ID       string
	Project  string   // the project it was built for, by its label; "" = none
	Tags     []string // its names
	Digests  []string // its digests in the requested repository: repository@sha256:...
	Triggers []string // commands that run in an image built on it (ONBUILD)
}

// Made is what a container is made from.
type Made struct {
	Name, ID  string
	ProjectID string // the workspace's team
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

// Build is one build of a project's image.
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

// Overview is everything about a project's image.
type Overview struct {
	Choice     Choice
	Image      string // the current image of containers; "" = the chosen one is not built yet
	Candidates []Candidate
	Builds     []Build // the newest first
	Problem    string  // why the repository could not be read, "" when it could
}

// Store is the storage the Service needs.
type Store interface {
	ChoiceStore
	BuildStore
}

// ChoiceStore stores projects' choices of images.
type ChoiceStore interface {
	// ImageChoice returns a project's choice.
	ImageChoice(ctx context.Context, projectID string) (Choice, error)
	SetImageChoice(ctx context.Context, projectID string, c Choice) error
	// ChoiceOfWorkspace returns the choice of a workspace's project, and the project's id.
	ChoiceOfWorkspace(ctx context.Context, workspaceID string) (projectID string, c Choice, err error)
}

// BuildStore stores builds.
type BuildStore interface {
	// InsertImageBuild stores a new build. A project has one build under way: a second is a fault.Conflict.
	InsertImageBuild(ctx context.Context, b Build) error
	// EndImageBuild stores the result of a build and the end of its output.
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

// Order is a build request for a Builder.
type Order struct {
	Tag        string
	Dockerfile string // its name in the context
	Target     string // build stage; "" = the last
	Args       map[string]string
	ProjectID  string
	TeamID     string
	BuildID    string
	NoCache    bool
	Context    io.Reader // a tar archive
}

// Builder is the engine: it finds, pulls and builds images.
type Builder interface {
	// Image finds the image with exactly this name, never one whose id begins like it. When there is none, the error is a fault
	// "image_missing".
	Image(ctx context.Context, name string) (Image, error)
	// Public asks the registry of repository@digest, without an account, whether it gives that image to everybody.
	Public(ctx context.Context, digest string) (bool, error)
	// Pull pulls an image without an account.
	Pull(ctx context.Context, name string, log io.Writer) error
	// Build builds an image and writes the output to log.
	Build(ctx context.Context, o Order, log io.Writer) error
	// Remove removes an image by its tag; a missing one, or one in use, is no error.
	Remove(ctx context.Context, tag string) error
}
