package docker

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"

	"github.com/parawork/parawork/executors/images/recipe"
)

// AgentImage is the default image of containers.
const AgentImage = agentImage

// AgentContext is the build context of AgentImage: only the Dockerfile.
func AgentContext(image recipe.Image) (io.Reader, error) {
	if err := image.Check(); err != nil {
		return nil, fmt.Errorf("the image cannot be built: %w", err)
	}
	text := image.Dockerfile()
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "Dockerfile", Mode: 0o644, Size: int64(len(text))}); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(t, text); err != nil {
		return nil, err
	}
	return &b, t.Close()
}

const (
	// agentImage is the image `parawork docker build` makes.
	agentImage = "parawork-agent"
	// projectPrefix begins the names of images built for projects.
	projectPrefix = "parawork-project-"
)
