package executors

import (
	"context"
	"io"
)

// Imager is an optional ability of an Executor whose sandboxes are made from images, which projects may name and build.
type Imager interface {
	// Images is the engine that has the images; nil where it has none.
	Images() ImageEngine
}

// ImageEngine finds, fetches and builds images. Safe for concurrent use.
type ImageEngine interface {
	// Image finds the image that has exactly this name, never one whose id begins like it. None is a fault "image_missing".
	Image(ctx context.Context, name string) (Image, error)
	// Public asks the registry of repository@digest, without an account, whether it gives that image to everybody.
	Public(ctx context.Context, digest string) (bool, error)
	// Pull fetches an image without an account.
	Pull(ctx context.Context, name string, log io.Writer) error
	// Build makes an image and writes what the making prints to log.
	Build(ctx context.Context, b ImageBuild, log io.Writer) error
	// Remove removes an image by its tag; one that is not there, or is in use, is no error.
	Remove(ctx context.Context, tag string) error
}

// Image is what an engine knows of one image.
type Image struct {
	ID       string
	Project  string   // whom it was built for, by its label
	Tags     []string // all its names
	Digests  []string // repository@digest, of the repository it was asked by
	Triggers []string // ONBUILD
}

// ImageBuild says what image to build.
type ImageBuild struct {
	Tag        string
	Dockerfile string // its name in the context
	Target     string // stage; "" = the last
	Args       map[string]string
	Project    string // whom it is for; "" = all
	Labels     map[string]string
	Network    string // of what runs in it; "" = the engine's usual one
	Gate       string // folder on this machine with the socket of the only way out of what runs in it, in the place of Network
	NoCache    bool
	Pull       bool // ask for newer versions of what it is built upon
	Bounded    bool // its steps have limits of memory and CPU
	Progress   bool // progress of downloads is written, too, line by line
	Context    io.Reader
}

// ImageRules say what sandboxes may be made from.
type ImageRules struct {
	Default      string   // where a project says nothing
	Projects     bool     // projects may name and build images of their own
	Host         []string // the engine's images that projects may use although no registry gives them to everybody, by name or pattern
	BuildNetwork string   // the engine's network for the steps of builds; "" = they go out through the gate
}
