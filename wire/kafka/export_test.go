package kafka

import "github.com/mainstemdev/mainstem/internal/budget"

// Budgets returns those that requests and answers take their memory from.
func (s *Server) Budgets() (requests, answers *budget.Budget) { return s.requests, s.answers }

// Expected returns how many bytes of memory the answer to a request may take.
var Expected = expected
