package docker

import (
	"archive/tar"
	"bytes"
	_ "embed" // the Dockerfile
	"io"
)

// AgentDockerfile makes the image containers are made from unless somebody says otherwise.
//
//go:embed agent/Dockerfile
var AgentDockerfile string

// AgentImage is what it is called.
const AgentImage = agentImage

// AgentContext is the context it is built in: the Dockerfile alone.
func AgentContext() (io.Reader, error) {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "Dockerfile", Mode: 0o644, Size: int64(len(AgentDockerfile))}); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(t, AgentDockerfile); err != nil {
		return nil, err
	}
	return &b, t.Close()
}

const (
	// agentImage is what `parawork docker build` makes.
	agentImage = "parawork-agent"
	// projectPrefix begins the names of images built for projects.
	projectPrefix = "parawork-project-"
)
