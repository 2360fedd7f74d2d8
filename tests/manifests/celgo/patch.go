package main

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"
)

// One operation of a JSON patch, as expressions of a MutatingAdmissionPolicy construct it:
// JSONPatch{op: …, path: …, from: …, value: …}; the value is of any type.
var operationType = types.NewObjectType("JSONPatch")

var fields = map[string]*types.Type{
	"op": types.StringType, "path": types.StringType, "from": types.StringType, "value": types.DynType,
}

// A constructed operation is a map by another name.
type operation struct {
	values map[string]ref.Val
}

func (o *operation) ConvertToNative(reflect.Type) (any, error) {
	return nil, fmt.Errorf("a JSONPatch is no plain value")
}
func (o *operation) ConvertToType(ref.Type) ref.Val {
	return types.NewErr("a JSONPatch is no other type")
}
func (o *operation) Equal(ref.Val) ref.Val { return types.False }
func (o *operation) Type() ref.Type        { return operationType }
func (o *operation) Value() any            { return o }

// The type of `variables`.
var variablesType = types.NewObjectType("variables")

// Knows the types JSONPatch and `variables`, and asks the environment's own provider about all others.
type provider struct {
	types.Provider
	variables map[string]*types.Type
	// Names and expressions of the variables declared so far.
	known string
}

func (p *provider) forget() {
	p.variables, p.known = map[string]*types.Type{}, ""
}

func (p *provider) declare(each variable, kind *types.Type) {
	p.variables[each.Name] = kind
	p.known += each.Name + "=" + each.Expression + "\n"
}

func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if name == operationType.TypeName() {
		return types.NewTypeTypeWithParam(operationType), true
	}
	if name == variablesType.TypeName() {
		return types.NewTypeTypeWithParam(variablesType), true
	}
	return p.Provider.FindStructType(name)
}

func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if name == operationType.TypeName() {
		kind, ok := fields[field]
		return &types.FieldType{Type: kind}, ok
	}
	if name == variablesType.TypeName() {
		kind, ok := p.variables[field]
		return &types.FieldType{Type: kind}, ok
	}
	return p.Provider.FindStructFieldType(name, field)
}

func (p *provider) NewValue(name string, values map[string]ref.Val) ref.Val {
	if name == operationType.TypeName() {
		return &operation{values}
	}
	return p.Provider.NewValue(name, values)
}

func (p *provider) option() cel.EnvOption {
	return func(env *cel.Env) (*cel.Env, error) {
		p.Provider = env.CELTypeProvider()
		return cel.CustomTypeProvider(p)(env)
	}
}

// The patch as JSON, or the text of an error. Values become JSON by way of structpb.Value, as in the
// API server: whole numbers beyond 2^53 would become strings there, and here.
func (e engine) patch(expression string, context map[string]any, cost *uint64) any {
	value, _, err := e.value(expression, cel.ListType(operationType), context, cost)
	if err != "" {
		return err
	}
	list, ok := value.(traits.Lister)
	if !ok {
		return "not a list"
	}
	patch := []map[string]any{}
	for each := list.Iterator(); each.HasNext() == types.True; {
		made, ok := each.Next().(*operation)
		if !ok {
			return "not a list of JSONPatch"
		}
		plain := map[string]any{}
		for name, value := range made.values {
			converted, err := value.ConvertToNative(reflect.TypeOf(&structpb.Value{}))
			if err != nil {
				return fmt.Sprintf("%s is no JSON: %v", name, err)
			}
			text, err := json.Marshal(converted)
			if err != nil {
				return fmt.Sprintf("%s is no JSON: %v", name, err)
			}
			plain[name] = json.RawMessage(text)
		}
		patch = append(patch, plain)
	}
	return patch
}
