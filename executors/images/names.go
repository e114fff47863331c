package images

import (
	"path"
	"regexp"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// imageName is a parsed image name: host, path, tag, digest.
var imageName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._/-]|:[0-9]+/)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$`)

// bareID matches what an engine takes for an image's id, or for a prefix of one.
var bareID = regexp.MustCompile(`^([0-9a-f]+$|sha256[:@]|sha256$)`)

// checkName rejects invalid image names, and images built for other projects.
func checkName(name, projectID string) error {
	if len(name) > 300 || !imageName.MatchString(name) {
		return fault.New(fault.Invalid, "invalid_image", "%q is no valid image name. It looks like node:22 or registry.example.com/team/image:tag.", clip(name, 300)).With("field", "image")
	}
	if bareID.MatchString(name) {
		return fault.New(fault.Invalid, "image_id", "%q could be an image's id, or the beginning of one. Images are chosen by their name; if the image really has this name, "+
			"write it with its tag, such as %s:latest.", clip(name, 300), clip(strings.TrimPrefix(name, "sha256:"), 64)).With("field", "image")
	}
	return checkForeign(name, projectID)
}

// repository is the name, without a tag, of the images built for a project.
func repository(projectID string) string { return TagPrefix + strings.ToLower(projectID) }

// checkForeign rejects images built for other projects: they contain those projects' files.
func checkForeign(name, projectID string) error {
	if base := baseOf(name); strings.HasPrefix(base, TagPrefix) && base != repository(projectID) {
		return foreign(name)
	}
	return nil
}

func foreign(name string) error {
	return fault.New(fault.Invalid, "image_of_another_project", "The image %q was built for another project and can only be used there.", clip(name, 300)).With("field", "image")
}

// ofProject says whether a name is that of an image built for a project.
func ofProject(name string) bool { return strings.HasPrefix(baseOf(name), TagPrefix) }

// baseOf returns the last part of a name, without tag and digest.
func baseOf(name string) string {
	name, _, _ = strings.Cut(name, "@")
	base := name[strings.LastIndex(name, "/")+1:]
	base, _, _ = strings.Cut(base, ":")
	return base
}

// checkSource rejects files an image cannot be built from.
func checkSource(source string) error {
	if source == "" || len(source) > 500 || source != path.Clean(source) || path.IsAbs(source) || source == ".." || strings.HasPrefix(source, "../") ||
		strings.ContainsAny(source, "\x00\n\r") || kindOf(source) == "" {
		return fault.New(fault.Invalid, "invalid_image_source",
			"An image is built from a Dockerfile or a devcontainer.json, named by its path in the repository.").With("field", "source")
	}
	return nil
}

// kindOf returns the kind of a file by its name, "" when no image can be built from it.
func kindOf(file string) string {
	switch base := path.Base(file); {
	case base == "devcontainer.json" || base == ".devcontainer.json":
		return Devcontainer
	case base == "Dockerfile" || base == "Containerfile" || strings.HasPrefix(base, "Dockerfile.") || strings.HasSuffix(base, ".Dockerfile") ||
		strings.HasSuffix(base, ".dockerfile"):
		return Dockerfile
	}
	return ""
}
