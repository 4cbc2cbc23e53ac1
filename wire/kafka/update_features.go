package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// UpdateFeatures, versions 0 to 2 (KIP-584).
//
//	v1  validate only, and the type of the upgrade
//	v2  one error for all features
//
// The levels of features are fixed.

// upgradeFeature is the type of an update that may only raise the level, see
// UpdateFeaturesRequest in Kafka's protocol.
const upgradeFeature = 1

// updateFeatures accepts a request if it asks for the levels that the features have, and
// refuses it as a whole otherwise.
func (s *Server) updateFeatures(_ context.Context, c *conn, req *kmsg.UpdateFeaturesRequest) *kmsg.UpdateFeaturesResponse {
	resp := req.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	var failed error
	for i := range req.FeatureUpdates {
		if failed = checkFeature(&req.FeatureUpdates[i]); failed != nil {
			break
		}
	}
	resp.ErrorCode, resp.ErrorMessage = s.outcome(c, "UpdateFeatures", failed)
	if req.Version >= 2 || failed != nil {
		return resp
	}
	for _, u := range req.FeatureUpdates {
		one := kmsg.NewUpdateFeaturesResponseResult()
		one.Feature = u.Feature
		resp.Results = append(resp.Results, one)
	}
	return resp
}

// checkFeature returns a refusal unless an update asks for the level that the feature has.
func checkFeature(u *kmsg.UpdateFeaturesRequestFeatureUpdate) error {
	for _, f := range features {
		switch {
		case f.name != u.Feature:
		case f.max == u.MaxVersionLevel:
			return nil
		case u.MaxVersionLevel > f.max || u.UpgradeType == upgradeFeature:
			return refuse(kerr.InvalidUpdateVersion, "feature %s cannot get the level %d: it has %d", u.Feature, u.MaxVersionLevel, f.max)
		default:
			return refuse(kerr.FeatureUpdateFailed, "feature %s stays at level %d, which also serves older clients", u.Feature, f.max)
		}
	}
	return refuse(kerr.InvalidUpdateVersion, "unknown feature %q", u.Feature)
}
