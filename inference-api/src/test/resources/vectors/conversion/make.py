# SPDX-License-Identifier: Apache-2.0
"""Writes conversion/vllm-0.32.0.jsonl: random requests through vLLM's own request models and conversions.

Run with a Python that has vLLM 0.32.0:  python make.py vllm-0.32.0.jsonl
"""
import json, random, sys, os
os.environ.update(VLLM_NO_USAGE_STATS="1",DO_NOT_TRACK="1",HF_HUB_OFFLINE="1")
from vllm.entrypoints.anthropic.protocol import AnthropicMessagesRequest, AnthropicCountTokensRequest
from vllm.entrypoints.anthropic.serving import AnthropicServingMessages
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
from vllm.entrypoints.openai.responses.utils import construct_input_messages, construct_tool_dicts, should_continue_final_message
R=random.Random(20261130)
texts=["","a","Hi there","zwei\nZeilen","é🙂","x-anthropic-billing-header: v=1;","x-anthropic-billing-header: v=2;\nrest"," lead","{\"json\":1}"]
def t(): return R.choice(texts)
vals=[1,1.5,-0.0,1e22,True,None,"é","a\"b",[],{}, [1,"x",{"k":None}], {"z":1,"a":[{}]}]
def obj():
    return {R.choice("abcde"):R.choice(vals) for _ in range(R.randrange(3))}
def a_block(role):
    k=R.choice(["text"]*5+["thinking","thinking","redacted_thinking","tool_use","tool_use","tool_result","tool_result","future"])
    b={"type":k}
    if k=="text":
        if R.random()<.95: b["text"]=t()
        if R.random()<.2: b["cache_control"]={"type":"ephemeral"}
    elif k=="thinking":
        if R.random()<.9: b["thinking"]=t()
        b["signature"]="s"
    elif k=="redacted_thinking": b["data"]="AAAA"
    elif k=="tool_use":
        b["id"]="tu_%d"%R.randrange(9); b["name"]=R.choice(["ls","get_time"])
        if R.random()<.9: b["input"]=obj()
    elif k=="tool_result":
        b["tool_use_id"]="tu_%d"%R.randrange(9)
        c=R.randrange(5)
        if c==0: b["content"]=t()
        elif c==1: b["content"]=[{"type":"text","text":t()} for _ in range(R.randrange(4))]
        elif c==2: pass
        elif c==3: b["content"]=None
        else: b["content"]=[{"type":"text","text":t()},R.choice([{"type":"text"},{"type":"future","text":"q"},{"type":"tool_reference","tool_name":"ls"}])]
        if R.random()<.2: b["is_error"]=True
    return b
def a_msg():
    role=R.choice(["user","user","assistant","system"])
    if R.random()<.4: return {"role":role,"content":t()}
    return {"role":role,"content":[a_block(role) for _ in range(R.randrange(1,5))]}
def a_req():
    r={"model":"m","max_tokens":R.choice([1,64,5000]),"messages":[a_msg() for _ in range(R.randrange(1,5))]}
    c=R.random()
    if c<.3: r["system"]=t()
    elif c<.5: r["system"]=[{"type":"text","text":t()} for _ in range(R.randrange(3))]
    if R.random()<.4:
        r["tools"]=[]
        for n in R.sample(["ls","get_time","x"],R.randrange(3)):
            d={"name":n,"input_schema":R.choice([{},{"type":"object"},{"properties":{"a":{"type":"string"}}}])}
            if R.random()<.6: d["description"]=R.choice(["d",None])
            if R.random()<.2: d["strict"]=R.choice([True,False,None])
            if R.random()<.2: d["cache_control"]={"type":"ephemeral"}
            r["tools"].append(d)
        if R.random()<.5: r["tool_choice"]=R.choice([{"type":"auto"},{"type":"any"},{"type":"none"},{"type":"tool","name":"ls"}])
    if R.random()<.2: r["thinking"]=R.choice([{"type":"disabled"},{"type":"adaptive"},{"type":"enabled","budget_tokens":2000}])
    if R.random()<.2: r["output_config"]=R.choice([{"effort":"low"},{"effort":"max"},{}])
    if R.random()<.2: r["chat_template_kwargs"]=R.choice([{"enable_thinking":False},{}])
    if R.random()<.3: r["stream"]=R.choice([True,False])
    return r
def r_part(kind):
    return {"type":kind,"text":t()}
def r_item():
    k=R.choice(["easy","easy","msg","asst_str","asst_list","asst_item","fc","fc","fco","reasoning","custom","custom_out","dev","other"])
    if k=="easy": return {"role":R.choice(["user","system"]),"content":t()}
    if k=="msg": return {"type":"message","role":"user","content":[r_part("input_text") for _ in range(R.randrange(1,3))]}
    if k=="dev": return {"role":"developer","content":t()}
    if k=="asst_str": return R.choice([{"role":"assistant","content":t()},{"type":"message","role":"assistant","content":t()}])
    if k=="asst_list": return {"role":"assistant","content":[r_part("output_text") for _ in range(R.randrange(1,3))]}
    if k=="asst_item":
        d={"type":"message","role":"assistant","content":[r_part("output_text") for _ in range(R.randrange(1,3))]}
        if R.random()<.4: d.update(id="msg_1",status=R.choice(["completed","in_progress","incomplete"]))
        return d
    if k=="fc":
        d={"type":"function_call","call_id":"c%d"%R.randrange(5),"name":R.choice(["f","g"]),"arguments":R.choice(["{}","{\"a\": 1}",""])}
        if R.random()<.2: d["namespace"]="ns"
        if R.random()<.2: d.update(id="fc_1",status="completed")
        return d
    if k=="fco":
        d={"type":"function_call_output","call_id":"c%d"%R.randrange(5),"output":t()}
        if R.random()<.3: d["output"]=[r_part("input_text") for _ in range(R.randrange(1,3))]
        return d
    if k=="custom": return {"type":"custom_tool_call","call_id":"c9","name":"h","input":t()}
    if k=="custom_out": return {"type":"custom_tool_call_output","call_id":"c9","output":t()}
    if k=="reasoning":
        d={"type":"reasoning","summary":[]}
        if R.random()<.7: d["content"]=[{"type":"reasoning_text","text":t()} for _ in range(R.randrange(1,3))]
        if R.random()<.3: d["summary"]=[{"type":"summary_text","text":t()}]
        if R.random()<.3: d["id"]="rs_1"
        if R.random()<.2: d["status"]=R.choice(["completed","in_progress"])
        return d
    return R.choice([{"type":"item_reference","id":"x"},{"role":"tool","content":"x"},{"type":"future"},{"role":"user"}])
def r_req():
    r={"model":"m"}
    if R.random()<.15: r["input"]=t()
    else: r["input"]=[r_item() for _ in range(R.randrange(1,6))]
    if R.random()<.3: r["instructions"]=t()
    if R.random()<.4:
        r["tools"]=[]
        for n in R.sample(["f","g"],R.randrange(3)):
            d={"type":"function","name":n}
            d["parameters"]=R.choice([{},{"type":"object","properties":{}},None])
            if R.random()<.5: d["description"]="d"
            if R.random()<.5: d["strict"]=R.choice([True,False,None])
            r["tools"].append(d)
        if R.random()<.2: r["tools"].append({"type":"namespace","name":"ns","description":"n","tools":[{"type":"function","name":"k","parameters":{}}]})
        if R.random()<.1: r["tools"].append({"type":"custom","name":"h"})
    if R.random()<.2: r["reasoning"]=R.choice([{"effort":"low"},{"effort":"none"},{}])
    return r
def norm(x):
    return json.loads(json.dumps(x,default=lambda o:o.model_dump() if hasattr(o,'model_dump') else list(o)))
out=open(sys.argv[1],'w'); n=[0,0]
def emit(ep,req,fn):
    row={"endpoint":ep,"request":req}
    try:
        row["accepted"]=norm(fn(json.loads(json.dumps(req)))); n[0]+=1
    except Exception:
        n[1]+=1
        return
    out.write(json.dumps(row,ensure_ascii=False)+"\n")
def f_msg(req):
    q=AnthropicServingMessages.to_chat_completion_request(AnthropicMessagesRequest(**req))
    return dict(messages=q.messages, tools=[x.model_dump() for x in q.tools] if q.tools is not None else None, effort=q.reasoning_effort, tool_choice=q.tool_choice, max=q.max_completion_tokens)
def f_resp(req):
    q=ResponsesRequest(**req)
    m=construct_input_messages(request_instructions=q.instructions,request_input=q.input)
    return dict(messages=m, tools=construct_tool_dicts(q.tools,q.tool_choice), effort=q.reasoning.effort if q.reasoning else None, continue_final=should_continue_final_message(q.input))
for i in range(600): emit("/v1/messages",a_req(),f_msg)
for i in range(600): emit("/v1/responses",r_req(),f_resp)
print(n)
