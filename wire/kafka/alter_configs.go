package kafka

import (
	"context"
	"maps"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic"
)

// AlterConfigs, versions 0 to 2 (KIP-133).
//
// Topics and groups can be altered, the broker cannot.

// alterConfigs replaces all configurations of topics or groups: those that the request does
// not name get their defaults. Each resource is altered as a whole or not at all.
func (s *Server) alterConfigs(ctx context.Context, c *conn, req *kmsg.AlterConfigsRequest) *kmsg.AlterConfigsResponse {
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	keys := make([]configResource, len(req.Resources))
	for i, r := range req.Resources {
		keys[i] = configResource{r.ResourceType, r.ResourceName}
	}
	for i, double := range once(keys) {
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = keys[i].kind, keys[i].name
		err := s.alter(ctx, keys[i], double, req.ValidateOnly, func(cfg topic.Config) error {
			return replaceAll(cfg, req.Resources[i].Configs)
		})
		out.ErrorCode, out.ErrorMessage = s.outcome(c, "AlterConfigs", err)
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

// replaceAll replaces cfg by configs.
func replaceAll(cfg topic.Config, configs []kmsg.AlterConfigsRequestResourceConfig) error {
	clear(cfg)
	for _, one := range configs {
		if one.Value == nil {
			return refuse(kerr.InvalidConfig, "configuration %q has no value", one.Name)
		}
		cfg[one.Name] = *one.Value
	}
	return nil
}

// alter applies edit to the configurations of one resource, a topic or a group, and stores
// the result if it is valid. With validateOnly it stores nothing. double means that the
// request names the resource more than once, which is refused.
func (s *Server) alter(ctx context.Context, r configResource, double, validateOnly bool, edit func(topic.Config) error) error {
	if double {
		return refuse(kerr.InvalidRequest, "the request names the resource %s more than once", resourceName(r.kind, r.name))
	}
	if r.kind == kmsg.ConfigResourceTypeBroker {
		if err := s.isBroker(r.name); err != nil {
			return err
		}
	}
	if r.kind == kmsg.ConfigResourceTypeGroupConfig {
		return s.alterGroup(ctx, r.name, validateOnly, edit)
	}
	if r.kind != kmsg.ConfigResourceTypeTopic {
		return unchangeable(r.kind)
	}
	t, err := s.owned(ctx, r.name, topic.ID{})
	if err != nil {
		return err
	}
	if validateOnly {
		cfg := maps.Clone(t.Config())
		if cfg == nil {
			cfg = topic.Config{}
		}
		if err := edit(cfg); err != nil {
			return err
		}
		return configRefusal(s.topics.Validate(t.Name(), topic.Spec{Config: cfg}))
	}
	return configRefusal(s.topics.Alter(ctx, t.Name(), edit))
}
