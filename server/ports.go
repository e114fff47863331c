package server

import (
	"context"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
)

const previewsOff = "Previews of ports are off. An operator turns them on with preview.baseDomain in config.json."

func (h handlers) ListPorts(ctx context.Context, req api.ListPortsRequestObject) (api.ListPortsResponseObject, error) {
	out := api.ListPorts200JSONResponse{Reason: previewsOff, Items: []struct {
		Port int    `json:"port"`
		Url  string `json:"url"`
	}{}}
	sb, err := h.cfg.Places.Sandbox(ctx, req.Id)
	if fault.Is(err, fault.NotFound) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	for _, port := range sb.Ports {
		out.Items = append(out.Items, struct {
			Port int    `json:"port"`
			Url  string `json:"url"`
		}{Port: port})
	}
	return out, nil
}

func (h handlers) OpenPort(context.Context, api.OpenPortRequestObject) (api.OpenPortResponseObject, error) {
	return nil, fault.New(fault.Unsupported, "preview_off", previewsOff)
}
