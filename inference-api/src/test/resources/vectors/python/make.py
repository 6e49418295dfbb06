# SPDX-License-Identifier: Apache-2.0
"""Writes json-loads.jsonl, json-dumps.jsonl and float-repr.txt into the folder given as argument; CPython 3.11."""
import json,random,base64,struct,sys,os
R=random.Random(7)
frag=['{','}','[',']',',',':','"','\\','\\u','\\ud83d','\\ude00','\\n','\\/','\\x','e','E','.','-','+','0','1','9','true','null','NaN','Infinity','-Infinity','nan',' ','\n','\t','\r','\x0b','\x00','\x1f','é','🙂','"a"','"model"','{}','[]','1e5','1e400','0.1','-0','00','1.','\ufeff']
def val(d):
    k=R.randrange(8 if d<4 else 6)
    if k==0: return str(R.choice([0,-1,10**18,10**19,-2**63,2**63,R.randrange(10**30)]))
    if k==1: return R.choice(['1.0','-0.0','1e-7','1E+16','123456789.123456789','5e-324','1.7976931348623157e308','1e999','NaN','-Infinity'])
    if k==2: return R.choice(['true','false','null'])
    if k in(3,4,5): return json.dumps(''.join(R.choice('ab"\\/\n\té🙂\x7f\u2028 ') for _ in range(R.randrange(6))),ensure_ascii=R.random()<.5)
    if k==6: return '['+','.join(val(d+1) for _ in range(R.randrange(4)))+']'
    return '{'+', '.join(json.dumps(R.choice('abc'))+R.choice([':',' : '])+val(d+1) for _ in range(R.randrange(4)))+'}'
rows=[];seen=set()
while len(rows)<1500:
    b=bytearray((R.choice(['',' ','\ufeff'] if R.random()<.1 else [''])+val(0)).encode('utf-8','surrogatepass'))
    for _ in range(R.choice([0,0,1,1,2,3])):
        if not b: break
        i=R.randrange(len(b)+1); k=R.randrange(4)
        if k==0: del b[i:i+1]
        elif k==1: b[i:i]=R.choice(frag).encode()
        elif k==2 and i<len(b): b[i]=R.randrange(256)
        else: b=b[:i]+b[i:i+R.randrange(4)]+b[i:]
    b=bytes(b)
    if b in seen or len(b)>400 : continue
    seen.add(b)
    enc=json.detect_encoding(b)
    if enc not in('utf-8','utf-8-sig'): continue
    try:
        v=json.dumps(json.loads(b))
    except (ValueError,RecursionError): v=None
    rows.append({"b":base64.b64encode(b).decode(),"v":v})
d=os.path.join(sys.argv[1],'')
open(d+'json-loads.jsonl','w').write('\n'.join(json.dumps(r) for r in rows)+'\n')
print(sum(r['v'] is None for r in rows))
# floats
fl=[]
special=[0.0,-0.0,1.0,1e15,1e16,123456789012345680.0,1e17,9007199254740993.0,1e-4,1e-5,0.00012345,5e-324,2.2250738585072014e-308,1.7976931348623157e308,2e23,1e23,9e15,1e22,9.5e-7,0.1,1/3,2**53+2.0,4.35,0.3,100.0,1e2,12345.678, 2e-3, 8e-324*1,1.5e-323]
for x in special: fl.append(x)
while len(fl)<2000:
    k=R.randrange(4)
    if k==0: x=struct.unpack('>d',struct.pack('>Q',R.getrandbits(64)))[0]
    elif k==1: x=round(R.uniform(-1000,1000),R.randrange(6))
    elif k==2: x=float('%de%d'%(R.randrange(1,100),R.randrange(-324,308)))
    else: x=R.randrange(-10**20,10**20)/10**R.randrange(20)
    if x==x and abs(x)!=float('inf'): fl.append(x)
open(d+'float-repr.txt','w').write('\n'.join('%016x %s'%(struct.unpack('>Q',struct.pack('>d',x))[0],repr(x)) for x in fl)+'\n')
# dumps styles
samples=[{"b":[1,2.5,{"x":None}],"a":"é\"\\/\n\t\r\b\f\x01\x7f\u2028🙂","e":[],"o":{},"\u00e9":True,"\ud83d":"\ude00"},[],{}, [[],[{}]], "x", 10**30, {"z":1,"\uffff":2,"\U0001f642":3,"a":4}]
out=[]
for s in samples:
    for ea in (True,False):
        for ind in (None,0,2,4):
            for sk in (False,True):
                out.append({"value":json.dumps(s),"ensure_ascii":ea,"indent":ind,"sort_keys":sk,"out":base64.b64encode(json.dumps(s,ensure_ascii=ea,indent=ind,sort_keys=sk).encode('utf-8','surrogatepass')).decode()})
open(d+'json-dumps.jsonl','w').write('\n'.join(json.dumps(r) for r in out)+'\n')
