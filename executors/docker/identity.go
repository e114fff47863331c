//go:build linux || darwin

package docker

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// The engine accepts a prefix of an image's id as its name. Names come from people, so a name is completed until it can only be a name
// before the engine sees it, and the image the engine returns must have that exact name.

// exactly completes a name to one that no id begins with: familiar as people write it, and as the engine lists it.
func exactly(name string) (reference.Named, error) {
	wrong := fault.New(fault.Invalid, "invalid_image", "%q is no name of an image. It looks like node:22 or registry.example.com/team/image:tag.", plain(name, 200))
	ref, err := reference.ParseNormalizedNamed(name)
	if err != nil || reference.FamiliarName(ref) == "sha256" {
		return nil, wrong
	}
	if digested, ok := ref.(reference.Digested); ok { // with a digest the engine ignores the tag
		if ref, err = reference.WithDigest(reference.TrimNamed(ref), digested.Digest()); err != nil {
			return nil, wrong
		}
	}
	return reference.TagNameOnly(ref), nil
}

// named finds the image of exactly that name. When there is none, errdefs.IsNotFound holds for the error.
func named(ctx context.Context, api *client.Client, name string) (image.InspectResponse, reference.Named, error) {
	ref, err := exactly(name)
	if err != nil {
		return image.InspectResponse{}, nil, err
	}
	familiar := reference.FamiliarString(ref)
	img, err := api.ImageInspect(ctx, familiar)
	if err != nil {
		return img, ref, err
	}
	if !slices.Contains(img.RepoTags, familiar) && !slices.Contains(img.RepoDigests, familiar) {
		return image.InspectResponse{}, ref, fmt.Errorf("no image is called %s: %w", familiar, errdefs.ErrNotFound)
	}
	return img, ref, nil
}

// projectOf returns the project an image was built for, "" = none.
func projectOf(img image.InspectResponse) string {
	if img.Config == nil {
		return ""
	}
	return img.Config.Labels[labelProject]
}

// Image finds the image that has exactly this name.
func (b *Builder) Image(ctx context.Context, name string) (executors.Image, error) {
	img, ref, err := named(ctx, b.api, name)
	if errdefs.IsNotFound(err) {
		return executors.Image{}, noImage(name, err)
	}
	if err != nil {
		return executors.Image{}, inWords(err)
	}
	out := executors.Image{ID: img.ID, Project: projectOf(img), Tags: img.RepoTags}
	for _, d := range img.RepoDigests {
		if strings.HasPrefix(d, reference.FamiliarName(ref)+"@") {
			out.Digests = append(out.Digests, d)
		}
	}
	if img.Config != nil {
		out.Triggers = img.Config.OnBuild
	}
	return out, nil
}

// registryIn bounds one call to a registry.
const registryIn = 20 * time.Second

// Public asks the registry of repository@digest, without an account, whether it gives that image to everybody.
func (b *Builder) Public(ctx context.Context, digest string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, registryIn)
	defer cancel()
	_, err := b.api.DistributionInspect(ctx, digest, "")
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case errdefs.IsUnauthorized(err), errdefs.IsPermissionDenied(err), errdefs.IsNotFound(err), strings.Contains(err.Error(), "denied"),
		strings.Contains(err.Error(), "unauthorized"), strings.Contains(err.Error(), "manifest unknown"):
		return false, nil
	}
	return false, inWords(err)
}

// Pull pulls an image without an account.
func (b *Builder) Pull(ctx context.Context, name string, log io.Writer) error {
	ref, err := exactly(name)
	if err != nil {
		return err
	}
	r, err := b.api.ImagePull(ctx, reference.FamiliarString(ref), image.PullOptions{})
	if err != nil {
		if unreachable(err) {
			return inWords(err)
		}
		return buildFailed(err.Error())
	}
	defer r.Close()
	return follow(ctx, r, log, true)
}

// imageOf finds the image for the container of s, and its name for people.
func (e *Executor) imageOf(ctx context.Context, s executors.Spec) (img image.InspectResponse, name string, err error) {
	switch {
	case s.ImageID != "":
		img, err = e.chosen(ctx, s.Image, s.ImageID, s.ImageFor)
		return img, s.Image, err
	case s.Image != "":
		img, err = e.image(ctx, s.Image, s.ImageFor)
		return img, s.Image, err
	}
	img, err = e.image(ctx, e.cfg.Image, "")
	return img, e.cfg.Image, err
}

// chosen finds an approved image by its id, and checks again for which project it was built.
func (e *Executor) chosen(ctx context.Context, name, id, project string) (image.InspectResponse, error) {
	img, err := e.api.ImageInspect(ctx, id)
	if errdefs.IsNotFound(err) {
		return img, noImage(name, err)
	}
	if err != nil {
		return img, inWords(err)
	}
	if img.ID != id {
		return image.InspectResponse{}, fmt.Errorf("asked for the image %s, the engine answered %s", id, img.ID)
	}
	return img, ownImage(img, name, project)
}

// ownImage rejects an image that was built for another project.
func ownImage(img image.InspectResponse, name, project string) error {
	if p := projectOf(img); p != "" && p != project {
		return fault.New(fault.Invalid, "image_of_another_project", "The image %q was built for another project and can only be used there.", plain(name, 300))
	}
	return nil
}
