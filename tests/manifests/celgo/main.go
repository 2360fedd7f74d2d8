// Evaluates admission policies with cel-go, the engine that the API server has. A line of JSON in:
// the policy's expressions and the request's variables; a line out: the results, each true, false
// or the text of an error, and the cost. Expressions are type-checked, and limited in cost as the
// API server limits them. A mutation's expression gives a JSON patch (patch.go).
package main

import (
	"encoding/json"
	"os"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
)

// Limits of one expression and of a policy: k8s.io/apiserver/pkg/apis/cel.
const (
	perCallLimit = 1000000
	policyBudget = 10000000
)

type variable struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
}

type question struct {
	Conditions  []string       `json:"conditions"`
	Variables   []variable     `json:"variables"`
	Validations []string       `json:"validations"`
	Mutation    string         `json:"mutation"`
	Context     map[string]any `json:"context"`
}

type answer struct {
	Conditions  []any  `json:"conditions"`
	Validations []any  `json:"validations"`
	Patch       any    `json:"patch"`
	Cost        uint64 `json:"cost"`
	OverBudget  bool   `json:"over_budget"`
}

// A compiled expression, and the type that it gives.
type compiled struct {
	program cel.Program
	kind    *cel.Type
}

type engine struct {
	env      *cel.Env
	types    *provider
	programs map[string]compiled
}

func main() {
	types := &provider{}
	env, err := cel.NewEnv(
		cel.HomogeneousAggregateLiterals(),
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		ext.Strings(),
		// Untyped in the API server too, as a policy may match many kinds.
		cel.Variable("object", cel.DynType),
		cel.Variable("oldObject", cel.DynType),
		cel.Variable("request", cel.DynType),
		// Each of a policy's variables has the type that its expression gives.
		cel.Variable("variables", variablesType),
		types.option(),
	)
	if err != nil {
		panic(err)
	}
	policies := engine{env, types, map[string]compiled{}}
	out := json.NewEncoder(os.Stdout)
	in := json.NewDecoder(os.Stdin)
	in.UseNumber()
	for {
		var asked question
		if in.Decode(&asked) != nil {
			return
		}
		if out.Encode(policies.run(asked)) != nil {
			return
		}
	}
}

func (e engine) run(asked question) answer {
	context := integers(asked.Context).(map[string]any)
	variables := map[string]any{}
	e.types.forget()
	context["variables"] = variables
	found := answer{Conditions: []any{}, Validations: []any{}}
	for _, expression := range asked.Conditions {
		found.Conditions = append(found.Conditions, e.told(expression, context, &found.Cost))
	}
	for _, each := range asked.Variables {
		value, kind, err := e.value(each.Expression, nil, context, &found.Cost)
		if err != "" {
			// An expression that reads it fails, as it does in the API server.
			continue
		}
		variables[each.Name] = value
		e.types.declare(each, kind)
	}
	for _, expression := range asked.Validations {
		found.Validations = append(found.Validations, e.told(expression, context, &found.Cost))
	}
	if asked.Mutation != "" {
		found.Patch = e.patch(asked.Mutation, context, &found.Cost)
	}
	found.OverBudget = found.Cost > policyBudget
	return found
}

func (e engine) told(expression string, context map[string]any, cost *uint64) any {
	value, _, err := e.value(expression, nil, context, cost)
	if err != "" {
		return err
	}
	if truth, ok := value.Value().(bool); ok {
		return truth
	}
	return "not a boolean"
}

// The value and its declared type, or the text of an error; `must`: the only type that will do.
func (e engine) value(
	expression string, must *cel.Type, context map[string]any, cost *uint64,
) (ref.Val, *cel.Type, string) {
	// The same text means another thing among other variables.
	key := e.types.known + expression
	made, ok := e.programs[key]
	if !ok {
		ast, issues := e.env.Compile(expression)
		if issues.Err() != nil {
			return nil, nil, "does not compile: " + issues.Err().Error()
		}
		program, err := e.env.Program(ast, cel.CostLimit(perCallLimit), cel.CostTracking(nil))
		if err != nil {
			return nil, nil, err.Error()
		}
		made = compiled{program, ast.OutputType()}
		e.programs[key] = made
	}
	if must != nil && !made.kind.IsExactType(must) {
		return nil, nil, "gives " + made.kind.String() + ", and not " + must.String()
	}
	value, details, err := made.program.Eval(context)
	if details != nil && details.ActualCost() != nil {
		*cost += *details.ActualCost()
	}
	if err != nil {
		return nil, nil, err.Error()
	}
	return value, made.kind, ""
}

// Numbers as the API server has them: whole ones are integers.
func integers(value any) any {
	switch value := value.(type) {
	case json.Number:
		if whole, err := value.Int64(); err == nil {
			return whole
		}
		real, _ := value.Float64()
		return real
	case map[string]any:
		for name := range value {
			value[name] = integers(value[name])
		}
	case []any:
		for index := range value {
			value[index] = integers(value[index])
		}
	}
	return value
}
